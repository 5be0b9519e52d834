"""Serve pages to browsers on this machine only.

A website may point its own host name to this machine (DNS rebinding). The server refuses such requests by their `Host`.
A request is answered if it passes these checks, in this order:

  1. `Host` and each `Origin` name localhost or a loopback address (`refuse_other_hosts`, else 403)
  2. the token of the printed address is in the address or in a cookie (`check_token`, else 403)

Each reply has the headers `_HEADERS`: no cache, no frame on another page, no address in `Referer`.
"""

import asyncio
import contextlib
import hmac
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeAlias
from urllib.parse import urlsplit

from aiohttp import web

from tunecheck._errors import ConfigurationError
from tunecheck.endpoints._transport import is_loopback

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def running(app: web.Application, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve an application within this block and yield its address; port 0 chooses a free port.

    Raises:
        ConfigurationError: the port is taken or out of range.
    """
    # aiohttp logs a traceback for each malformed request; the status of the reply tells the sender.
    quiet = logging.Logger("tunecheck.serving", logging.CRITICAL)

    runner = web.AppRunner(app, access_log=None, logger=quiet, shutdown_timeout=5)
    await runner.setup()

    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except (OSError, OverflowError) as error:  # OverflowError: the port is out of range
            reason = getattr(error, "strerror", "") or error
            raise ConfigurationError(f"cannot serve pages on {host}:{port} ({reason}): give another --port") from None

        # With port 0 the system has chosen one.
        taken = runner.addresses[0][1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{taken}"
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """Within this block, SIGINT and SIGTERM set the event."""
    loop = asyncio.get_running_loop()
    taken = []
    for name in (signal.SIGINT, signal.SIGTERM):
        # Not possible on Windows and outside the main thread; then `stop` or a KeyboardInterrupt ends the server.
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(name, stop.set)
            taken.append(name)

    try:
        yield
    finally:
        for name in taken:
            loop.remove_signal_handler(name)


async def serve_pages(app: web.Application, port: int, on_ready: Callable[[str], None] | None, token: str) -> None:
    """Serve an application on this machine until a signal ends the process; port 0 chooses a free port.

    `on_ready` gets the address with the token.
    """
    stop = asyncio.Event()
    async with running(app, "127.0.0.1", port) as url:
        with stopped_by_signals(stop):
            if on_ready:
                on_ready(f"{url}/?token={token}")
            await stop.wait()


def check_token(given: str, token: str, command: str) -> None:
    """Check that a request has the token of the address that a command printed.

    Raises:
        HTTPForbidden: it has another token, or none.
    """
    # A comparison in constant time: its duration does not tell how much of a guess is right.
    if not hmac.compare_digest(given.encode(errors="surrogateescape"), token.encode()):
        raise web.HTTPForbidden(text=f"this address has no valid token: open the address that `{command}` printed")


@web.middleware
async def refuse_other_hosts(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer only requests that name this machine (else 403); turn every error into a plain text reply."""
    try:
        if not is_of_this_machine(request):
            raise web.HTTPForbidden(text=NOT_THIS_MACHINE)
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


NOT_THIS_MACHINE = "this server answers only requests to 127.0.0.1 or localhost, and none from other web pages"


def is_of_this_machine(request: web.Request) -> bool:
    """Return whether a request's `Host` and `Origin` headers name this machine only.

    Example: `Host: 127.0.0.1:8000` passes, and so does no `Origin` at all. `Origin: https://example.com` is refused.
    """
    origins = request.headers.getall("Origin", [])
    return all(map(_names_this_machine, [f"//{request.headers.get('Host', '')}", *origins]))


def _names_this_machine(address: str) -> bool:
    """Return whether the host in an address is localhost or a loopback address."""
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)
