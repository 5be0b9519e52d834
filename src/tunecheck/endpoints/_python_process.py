"""The process of an endpoint of kind `python`: `python -m tunecheck.endpoints._python_process`.

Frames are a length and a number (8 bytes each, big-endian) and a pickle; both ends are this package, and the pipes are
private to them. The first frame says which function to load; each further frame holds the function's arguments, and is
answered under its number. The process ends when its input does.
"""

from __future__ import annotations

import inspect
import os
import pickle
import threading
from collections.abc import Awaitable, Callable
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
    frame = read_frame(requests)
    if frame is not None:
        place: FunctionPlace = pickle.loads(frame[1])  # noqa: S301 - from our own parent
        caller = _Caller(place.load(), replies)
        while (frame := read_frame(requests)) is not None:
            threading.Thread(target=caller.call, args=frame, daemon=True).start()
    os._exit(0)


def read_frame(pipe: BinaryIO) -> tuple[int, bytes] | None:
    """Return the number and body of the next frame, or None at the end of the pipe."""
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length, number = HEADER.unpack(header)
    body = pipe.read(length)
    return (number, body) if len(body) == length else None


class _Caller:
    """Calls the function, each time in a thread of its own; coroutines are awaited in one event loop."""

    def __init__(self, function: Callable[..., object], replies: BinaryIO) -> None:
        self._function = function
        self._replies = replies
        self._sending = threading.Lock()
        self._loop = LoopThread("tunecheck-function")

    def call(self, number: int, body: bytes) -> None:
        """Answer one frame; a frame without arguments asks for a sign of life."""
        arguments: dict[str, object] | None = pickle.loads(body)  # noqa: S301 - from our own parent
        try:
            value = None if arguments is None else self._function(**arguments)
            if inspect.isawaitable(value):
                value = self._loop.submit(_awaited(value)).result()
            reply = pickle.dumps(value if isinstance(value, Completion) else plain(value))
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            raised = Raised(error if isinstance(error, TunecheckError) else None, f"{type(error).__name__}: {error}")
            reply = pickle.dumps(raised)
        with self._sending:
            self._replies.write(HEADER.pack(len(reply), number) + reply)
            self._replies.flush()


async def _awaited(value: Awaitable[object]) -> object:
    return await value


if __name__ == "__main__":
    main()
