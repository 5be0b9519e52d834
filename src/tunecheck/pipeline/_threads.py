"""Threads for functions that are not ours: one that never returns does not keep the interpreter from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(Executor):
    """At most `most` daemon threads, each started when there is work for it.

    The standard library's pool waits for its threads when Python ends, for ever if need be.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a function called; its future has what it returned or raised."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it is for whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._closed:
                raise RuntimeError("the threads were let go")
            self._work.put(call)
            if self._idle:
                self._idle -= 1
            elif self._count < self._most:
                self._count += 1
                threading.Thread(target=self._serve, name=f"{self._name}_{self._count}", daemon=True).start()
        return future

    def _serve(self) -> None:
        while (call := self._work.get()) is not None:
            call()
            del call  # else it holds its arguments until the next one comes
            with self._lock:
                self._idle += 1

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Let the threads end when they have done what was not cancelled of their work; nobody waits for them."""
        with self._lock:
            self._closed = True
            for _ in range(self._count):
                self._work.put(None)
