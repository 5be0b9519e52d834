"""The process of an endpoint of kind `python`: `python -m tunecheck.endpoints._python_process`.

Frames are a length and a number (8 bytes each, big-endian) and a pickle; both ends are this package, and the pipes are
private to them. The first frame says which function to load; each further frame holds the function's arguments, and is
answered under its number. The process ends when its input does.
"""

from __future__ import annotations

import inspect
import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

from tunecheck._errors import TunecheckError
from tunecheck._json import plain
from tunecheck._loops import LoopThread
from tunecheck.endpoints._base import Completion
from tunecheck.endpoints._function_process import HEADER, FunctionPlace, Raised


def main() -> None:
    """Answer calls until the input ends."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What the function prints goes to standard error, and it reads nothing.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    caller = _Caller(replies)
    first = True
    while (frame := read_frame(requests)) is not None:
        number, body = frame
        if first:
            caller.load(pickle.loads(body))  # noqa: S301 - from our own parent
            first = False
        else:
            caller.call(number, pickle.loads(body))  # noqa: S301
    os._exit(0)


def read_frame(pipe: BinaryIO) -> tuple[int, bytes] | None:
    """The next frame; None at the end of the pipe."""
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length, number = HEADER.unpack(header)
    body = pipe.read(length)
    return (number, body) if len(body) == length else None


class _Caller:
    """Calls the function: in a thread for each call, or in one event loop."""

    def __init__(self, replies: BinaryIO) -> None:
        self._replies = replies
        self._sending = threading.Lock()
        self._loop = LoopThread("tunecheck-function")

    def load(self, place: FunctionPlace) -> None:
        sys.path[:] = place.path
        if place.file is not None:
            from tunecheck.plugins import load_file

            module: object = load_file(place.file, place.module)
        else:
            from importlib import import_module

            module = import_module(place.module)
        self._function: Callable[..., object] = getattr(module, place.name)
        callables = (self._function, getattr(self._function, "__call__", None))
        self._is_async = any(map(inspect.iscoroutinefunction, callables))

    def call(self, number: int, arguments: dict[str, object] | None) -> None:
        if arguments is None:  # a question for a sign of life
            self._send(number, None)
        elif self._is_async:
            self._loop.submit(self._await(number, arguments))
        else:
            threading.Thread(target=self._run, args=(number, arguments), daemon=True).start()

    def _run(self, number: int, arguments: dict[str, object]) -> None:
        try:
            value = self._function(**arguments)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            self._send(number, _raised(error))
            return
        if inspect.isawaitable(value):
            self._loop.submit(self._await(number, value))
        else:
            self._send(number, _sendable(value))

    async def _await(self, number: int, work: object) -> None:
        try:
            value = await (self._function(**work) if isinstance(work, dict) else work)  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001 - as above
            self._send(number, _raised(error))
        else:
            self._send(number, _sendable(value))

    def _send(self, number: int, value: object) -> None:
        try:
            body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # noqa: BLE001 - somebody's object
            body = pickle.dumps(_raised(error))
        with self._sending:
            self._replies.write(HEADER.pack(len(body), number) + body)
            self._replies.flush()


def _sendable(value: object) -> object:
    if isinstance(value, Completion):
        return value
    try:
        return plain(value)
    except TypeError as error:
        return Raised(None, f"TypeError: {error}")


def _raised(error: Exception) -> Raised:
    return Raised(error if isinstance(error, TunecheckError) else None, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
