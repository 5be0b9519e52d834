"""Parts for testing `tunecheck serve`: recorded answers, a source that counts, and a server started for a test."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from anyio.from_thread import start_blocking_portal
from tests.scripted_rules import ScriptedServer, ScriptSource

from tunecheck import TimedOutError
from tunecheck.endpoints import ChatRequest, Completion, load_endpoint
from tunecheck.plugins import dumps_line
from tunecheck.report import running
from tunecheck_serve import ChatSource, ServerOptions, Service, make_app

TOOLS: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
ARGUMENTS = '{"city":"Zürich","days":[1,2,3],"note":"the arguments come in several pieces"}'
CALL = {"id": "call_7", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
TEXT = "It is  sunny —\nand 21 °C. "


def asking(text: str) -> Any:
    return [{"role": "user", "content": text}]


RECORDS = (
    {
        "messages": asking("talk"),
        "response": TEXT,
        "usage": {"input_tokens": 11, "output_tokens": 5},
        "request_id": "rq1",
    },
    {"messages": asking("call"), "tool_calls": [CALL]},
    {"messages": asking("both"), "tool_calls": [CALL, {**CALL, "id": "call_8"}], "text": "One moment."},
    {"messages": asking("empty"), "response": ""},
)

Starter = Callable[..., Awaitable[str]]


def recorded_answers(folder: Path) -> ChatSource:
    path = folder / "answers.jsonl"
    path.write_bytes(b"".join(map(dumps_line, RECORDS)))
    return load_endpoint({"kind": "replay", "path": str(path)}, name="recorded")


def _service(source: ChatSource | Service) -> ChatSource | Service:
    return ScriptedServer(source) if isinstance(source, ScriptSource) else source


@asynccontextmanager
async def servers() -> AsyncIterator[Starter]:
    """`await start(source, **options)`: a server on a free port, stopped at the end; gives its address."""
    async with AsyncExitStack() as stack:

        async def start(source: ChatSource | Service, **options: Any) -> str:
            return await stack.enter_async_context(running(make_app(_service(source), ServerOptions(**options))))

        yield start


@contextmanager
def serving(source: ChatSource) -> Iterator[str]:
    """The address of a server in a thread of its own, next to a command that blocks this one."""
    app = make_app(_service(source))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running(app)) as url:
        yield url


async def posted(url: str, body: Any, **headers: str) -> tuple[int, Any, Any]:
    """Status, JSON and headers of the reply; `body` is sent unchanged if it is bytes."""
    sent: Any = {"data": body} if isinstance(body, (bytes, io.BytesIO)) else {"json": body}
    async with aiohttp.ClientSession() as session, session.post(url, headers=headers, **sent) as response:
        return response.status, await response.json(), response.headers


async def got(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.json()


class Counting(ChatSource):
    """A source that numbers its answers; the first `failures` of them are errors."""

    name = "counting"

    def __init__(
        self,
        *,
        failures: int = 0,
        error: BaseException | None = None,
        wait: asyncio.Event | None = None,
        simulated: bool = False,
        text: str = "",
    ) -> None:
        self.failures, self.error, self.wait = failures, error, wait
        self.simulated, self.text, self.asked, self.answers = simulated, text, 0, 0

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked += 1
        if self.wait:
            await self.wait.wait()
        if self.failures:
            self.failures -= 1
            raise self.error or TimedOutError("too late")
        self.answers += 1
        return Completion(self.text or f"answer {self.answers}", simulated=self.simulated)
