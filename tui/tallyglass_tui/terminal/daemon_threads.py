"""An executor whose threads do not delay the end of the process: a hanging DNS lookup must not delay ``q``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreadExecutor(ThreadPoolExecutor):
    """Runs each call in a daemon thread. asyncio accepts only a ThreadPoolExecutor, whose own threads the interpreter
    joins at exit; an unreachable name server blocks one for half a minute and more."""

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
    except BaseException as error:  # noqa: BLE001 - passed on to the future
        future.set_exception(error)
    else:
        future.set_result(result)
