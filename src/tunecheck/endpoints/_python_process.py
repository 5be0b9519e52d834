"""The process of an endpoint of kind `python`: `python -m tunecheck.endpoints._python_process`.

The first request says which function to load; each further one holds the function's arguments. The process ends when
its input does.
"""

from __future__ import annotations

import inspect
import os
import pickle
import threading
from collections.abc import Awaitable, Callable

from tunecheck._errors import TunecheckError
from tunecheck._json import plain
from tunecheck._loops import LoopThread
from tunecheck._worker_process import Pipes
from tunecheck.endpoints._base import Completion
from tunecheck.endpoints._function_process import FunctionPlace, Raised


def main() -> None:
    """Answer calls until the input ends."""
    pipes = Pipes()
    caller = None
    for number, body in pipes.requests():
        if caller is None:
            place: FunctionPlace = pickle.loads(body)  # noqa: S301 - from the parent process
            caller = _Caller(place.load(), pipes)
            pipes.reply(number, None)
        else:
            threading.Thread(target=caller.call, args=(number, body), daemon=True).start()
    os._exit(0)


class _Caller:
    """Calls the function, each time in a thread of its own; coroutines are awaited in one event loop."""

    def __init__(self, function: Callable[..., object], pipes: Pipes) -> None:
        self._function = function
        self._pipes = pipes
        self._loop = LoopThread("tunecheck-function")

    def call(self, number: int, body: bytes) -> None:
        """Answer one frame; a frame without arguments asks for a sign of life."""
        arguments: dict[str, object] | None = pickle.loads(body)  # noqa: S301 - from the parent process
        try:
            value: object = None if arguments is None else self._function(**arguments)
            if inspect.isawaitable(value):
                value = self._loop.submit(_awaited(value)).result()
            reply: object = value if isinstance(value, Completion) else plain(value)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            reply = Raised(error if isinstance(error, TunecheckError) else None, f"{type(error).__name__}: {error}")
        self._pipes.reply(number, reply)


async def _awaited(value: Awaitable[object]) -> object:
    return await value


if __name__ == "__main__":
    main()
