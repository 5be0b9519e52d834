"""Where a local server's answers come from: anything that answers chats; here, an endpoint and the rows it knows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from tunecheck._json import JSON
from tunecheck._targets import Row
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint
from tunecheck.endpoints._recorded import NoAnswerError, content_key
from tunecheck.endpoints._target import EndpointTarget


class AnswerSource(ABC):
    """What the server asks.

    `name` is offered as the model's name; `headers` go with every answer; `streaming` says whether chat completions
    are given as streams only, or never so.
    """

    name: str
    headers: Mapping[str, str] = {}
    streaming: Literal["only", "refused"] | None = None

    @abstractmethod
    async def answer(self, request: ChatRequest) -> Completion:
        """Answer one chat.

        Raises:
            NoAnswerError: nothing is known about these messages.
            EndpointError: the answer is an error; its status and text are passed on.
            ProblemError: the answer is this error reply.
        """

    def health(self) -> dict[str, JSON]:
        """Counts of its own, for the health check."""
        return {}

    async def close(self) -> None:
        """Release what is held open."""


class EndpointSource(AnswerSource):
    """Answers of an endpoint.

    With `rows`, messages are first turned into the row that stands for them (the first such row), and the endpoint is
    asked for that row: what a simulated endpoint needs, and a replay file that has ids only. `request_of` gives the
    request of a row; without it, as when a run asks an endpoint. Rows from which no request can be made are left out.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        rows: Iterable[Row] | None = None,
        request_of: Callable[[Row], ChatRequest] | None = None,
    ) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint
        self._rows = None if rows is None else _by_content(rows, request_of or EndpointTarget(endpoint).request)

    async def answer(self, request: ChatRequest) -> Completion:
        if self._rows is not None:
            known = self._rows.get(content_key(request.messages))
            if known is None:
                raise NoAnswerError("no row of the data set has these messages")
            row, tools = known
            request = replace(request, tools=request.tools or tools, row=row)
        return await self._endpoint.complete(request)

    async def close(self) -> None:
        await self._endpoint.close()


def _by_content(
    rows: Iterable[Row], request_of: Callable[[Row], ChatRequest]
) -> dict[bytes, tuple[Row, Sequence[Mapping[str, JSON]] | None]]:
    known: dict[bytes, tuple[Row, Sequence[Mapping[str, JSON]] | None]] = {}
    for row in rows:
        try:
            request = request_of(row)
        except ValueError:
            continue
        if request.messages:
            known.setdefault(content_key(request.messages), (row, request.tools))
    return known
