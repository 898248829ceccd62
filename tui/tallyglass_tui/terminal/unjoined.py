"""Blocking work that the end of the process does not wait for: a name that nobody resolves must not hold up ``q``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Unjoined(ThreadPoolExecutor):
    """A daemon thread for each call. asyncio takes no executor but a ThreadPoolExecutor, whose own threads the
    interpreter joins before it ends; a name server that is gone keeps one for half a minute and more."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run ``fn`` in a thread of its own."""
        future: Future[T] = Future()
        threading.Thread(target=_run, args=(future, fn, args, kwargs), daemon=True, name="tallyglass-wait").start()
        return future


def _run(future: Future[T], fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - whoever waits for the future gets it
        future.set_exception(error)
    else:
        future.set_result(result)
