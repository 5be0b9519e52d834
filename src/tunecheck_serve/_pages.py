"""Pages for a browser on this machine, and for nobody else.

Only this machine can connect, and only a browser that was sent here by this address: a page elsewhere that has its own
name point to this machine (DNS rebinding) is refused by the `Host` it names.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import web

from tunecheck._errors import ConfigurationError
from tunecheck_serve._middleware import NOT_THIS_MACHINE, is_of_this_machine
from tunecheck_serve._server import running, stopped_by_signals

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def serve_pages(app: web.Application, port: int, on_ready: Callable[[str], None] | None) -> None:
    """Serve an application on this machine until the process is asked to end. Port 0 takes a free one."""
    stop = asyncio.Event()
    async with running(app, "127.0.0.1", port) as url:
        with stopped_by_signals(stop):
            if on_ready:
                on_ready(url)
            await stop.wait()


@web.middleware
async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Refuse who was not sent here by this machine's name; say what went wrong as plain text."""
    if not is_of_this_machine(request):
        response: web.StreamResponse = web.Response(status=403, text=NOT_THIS_MACHINE)
    else:
        try:
            response = await handler(request)
        except web.HTTPException as error:
            response = web.Response(status=error.status, text=error.text or error.reason)
        except ConfigurationError as error:
            response = web.Response(status=409, text=str(error))
        except Exception as error:  # noqa: BLE001 - the server goes on, whatever a run folder or a data set holds
            response = web.Response(status=500, text=f"{type(error).__name__}: {error}")
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
