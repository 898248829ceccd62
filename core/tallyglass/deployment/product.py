"""Which product answers: MongoDB, a service on it, or one that speaks its protocol. And what was tested."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from tallyglass.mongo.gateway import Document
from tallyglass.text import clean

TESTED = ("6.0",)
"""The releases on which every run of the tests is made."""


class Product(StrEnum):
    """A product that speaks MongoDB's protocol."""

    MONGODB = "MongoDB"
    PERCONA = "Percona Server for MongoDB"
    ATLAS = "MongoDB Atlas"
    FERRETDB = "FerretDB"
    DOCUMENTDB = "Amazon DocumentDB"
    COSMOS = "Azure Cosmos DB"

    @property
    def keeps_oplog(self) -> bool:
        """Whether clients can read an oplog that holds every write, and know which of them a majority has.

        FerretDB 1 writes one without commands and without a majority, if a user creates the collection.
        """
        return self not in (Product.DOCUMENTDB, Product.COSMOS, Product.FERRETDB)


_BY_HOST = (
    (r"\.docdb(?:-elastic)?\.(?:cn-[a-z0-9-]+\.)?amazonaws\.com(?:\.cn)?\Z", Product.DOCUMENTDB),
    (r"\.cosmos\.azure\.(?:com|cn|us)\Z", Product.COSMOS),
    (r"\.mongodb(?:gov)?\.net\Z", Product.ATLAS),
)
"""Services that only the names of their hosts tell from MongoDB: those of China and of a government have their own."""


def product_of(hello: Document, build: Document) -> Product:
    """The product, by fields that only it has, or by the names of its hosts."""
    if "ferretdb" in build or "ferretdbVersion" in build:
        return Product.FERRETDB
    if "psmdbVersion" in build:
        return Product.PERCONA
    hosts = [str(host).rpartition(":")[0].lower() for host in _hosts(hello)]
    return next((found for pattern, found in _BY_HOST for host in hosts if re.search(pattern, host)), Product.MONGODB)


def server_name(product: Product, build: Document) -> str:
    """Product and version, safe to show, such as ``FerretDB v1.24.0, compatible with MongoDB 7.0.42``."""
    version = clean(str(build.get("version", "")), 40)
    if product is not Product.FERRETDB:
        return f"{product} {version}".rstrip()
    own = build.get("ferretdb")
    text = own.get("version", "") if isinstance(own, Mapping) else build.get("ferretdbVersion", "")
    return f"{product} {clean(str(text), 40)}".rstrip() + f", compatible with MongoDB {version}"


def untested(product: Product, version: str, name: str) -> str:
    """One sentence if the tests are not run on this server; empty if they are. ``version`` is that of MongoDB."""
    if product is Product.MONGODB and ".".join(version.split(".")[:2]) in TESTED:
        return ""
    return f"Tallyglass was tested on MongoDB {', '.join(TESTED)} only; this is {name}."


def _hosts(hello: Document) -> Iterable[object]:
    listed = hello.get("hosts")
    return [*(listed if isinstance(listed, (list, tuple)) else ()), hello.get("me", ""), hello.get("primary", "")]
