"""Where a local server's answers come from: anything that answers messages; here, an endpoint and the rows it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._targets import Row
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint
from tunecheck.endpoints._definition import load_endpoint
from tunecheck.endpoints._recorded import NoAnswerError, content_key
from tunecheck.endpoints._replay import ReplayEndpoint
from tunecheck.endpoints._target import EndpointTarget


class AnswerSource(Protocol):
    """What the server asks. `name` is offered as the model's name."""

    @property
    def name(self) -> str:
        """The model's name."""

    async def answer(
        self,
        messages: Sequence[Mapping[str, JSON]],
        tools: Sequence[Mapping[str, JSON]] | None,
        parameters: Mapping[str, JSON],
    ) -> Completion:
        """Answer one chat.

        Raises:
            NoAnswerError: nothing is known about these messages.
            EndpointError: the answer is an error; its status and text are passed on.
            ProblemError: the answer is this error reply.
        """

    async def close(self) -> None:
        """Release what is held open."""


@runtime_checkable
class TellsHealth(Protocol):
    """A source that adds counts of its own to the health check."""

    def health(self) -> dict[str, JSON]:
        """What it has counted."""


class EndpointSource:
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

    async def answer(
        self,
        messages: Sequence[Mapping[str, JSON]],
        tools: Sequence[Mapping[str, JSON]] | None,
        parameters: Mapping[str, JSON],
    ) -> Completion:
        """See AnswerSource."""
        row, own_tools = None, None
        if self._rows is not None:
            known = self._rows.get(content_key(messages))
            if known is None:
                raise NoAnswerError("no row of the data set has these messages")
            row, own_tools = known
        asked = ChatRequest(messages=messages, tools=tools or own_tools, parameters=parameters, row=row)
        return await self._endpoint.complete(asked)

    async def close(self) -> None:
        """Close the endpoint."""
        await self._endpoint.close()


def source_of(
    source: str | Path, rows: Iterable[Row] | None = None, *, workspace: Path | None = None
) -> EndpointSource:
    """Answers of a file of recorded ones (`.jsonl`), or of the endpoint that a definition describes.

    Raises:
        ConfigurationError: the file or definition cannot be used, or a simulated endpoint has no rows to answer.
    """
    recorded = Path(source).suffix == ".jsonl"
    endpoint = (
        ReplayEndpoint(source, name=Path(source).stem) if recorded else load_endpoint(source, workspace=workspace)
    )
    if endpoint.simulated and rows is None:
        raise ConfigurationError(f"{source}: a simulated endpoint answers only rows of a data set: name one")
    return EndpointSource(endpoint, rows)


_Known = dict[bytes, tuple[Row, Sequence[Mapping[str, JSON]] | None]]


def _by_content(rows: Iterable[Row], request_of: Callable[[Row], ChatRequest]) -> _Known:
    known: _Known = {}
    for row in rows:
        try:
            request = request_of(row)
        except ValueError:
            continue
        if request.messages:
            known.setdefault(content_key(request.messages), (row, request.tools))
    return known
