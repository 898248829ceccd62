"""Django with prefork workers: the cache is made on first use in each worker process, and closed when the worker ends.

    TALLYGLASS_URI=mongodb://... gunicorn --workers 3 examples.django_orders:application

An application with a project of its own puts ``order_numbers`` into a module that its views import. The module may also
be imported before the workers are forked (``--preload``): the cache of the parent starts empty in each worker. As a
program this file starts gunicorn and places some orders:

    python -m examples.django_orders mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from typing import Any

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from pymongo import MongoClient

from examples._gunicorn import post, served, summary
from tallyglass.allocate import Cached, Counter

if not settings.configured:
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"], SECRET_KEY=os.urandom(16).hex())
    django.setup()


@functools.cache
def order_numbers() -> Cached:
    """The numbers of this process."""
    client: MongoClient[dict[str, Any]] = MongoClient(os.environ.get("TALLYGLASS_URI", "mongodb://127.0.0.1:27017"))
    counter = Counter(client.examples.counters, "django")
    counter.create()
    numbers = Cached(counter, patience=5)
    atexit.register(numbers.close)
    return numbers


def place_order(request: HttpRequest) -> JsonResponse:
    """A view: an order, with the next number and the process that placed it."""
    return JsonResponse({"number": order_numbers().next(), "process": os.getpid()})


urlpatterns = [path("", place_order)]
application = get_wsgi_application()


def main(uri: str, orders: int = 200) -> list[int]:
    """Start gunicorn, and place some orders; their numbers."""
    import json

    with served("examples.django_orders:application", uri) as address:
        placed = [json.loads(body) for body in post(address, orders)]
    numbers = [int(order["number"]) for order in placed]
    print(summary("orders", numbers, len({order["process"] for order in placed})))
    return numbers


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
