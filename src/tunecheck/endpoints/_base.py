"""The interface of every endpoint: a chat request goes in, a completion comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar, cast

import msgspec

from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, real_number, whole_number
from tunecheck._targets import Load, Row, UserCalls
from tunecheck.endpoints._api_facts import ApiFacts
from tunecheck.formats._reading import AUTO

if TYPE_CHECKING:
    from tunecheck._yaml import Document
    from tunecheck.endpoints._limits import SharedLimits
    from tunecheck.endpoints._masking import Redactor
    from tunecheck.formats._profiles import Profile


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request: OpenAI-style messages and tools.

    `parameters` are laid over the definition's own. `row` is the data set row it is made for, where there is one:
    recorded and simulated endpoints find their answer by it, and request templates may name its columns. `sent_at`,
    with a time zone, is when it is sent by the clock of a conversation that has one of its own: endpoints over HTTP
    tell it in the header Tunecheck-Time. `may_raise_limit`: a model that uses up the limit of tokens thinking gets a
    higher one, as judges do; a model that is measured keeps its limit.
    """

    messages: Sequence[Mapping[str, JSON]]
    tools: Sequence[Mapping[str, JSON]] | None = None
    parameters: Mapping[str, JSON] = field(default_factory=dict)
    idempotency_key: str | None = None
    row: Row | None = None
    sent_at: datetime | None = None
    may_raise_limit: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, as the service counted them; None where it did not say.

    `cached_input_tokens` are those of the input that the service had in its cache, `reasoning_tokens` those of the
    output that are reasoning.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """The tokens of two calls; what neither said stays unknown."""
        both = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return Usage(
            *(None if first is None and second is None else (first or 0) + (second or 0) for first, second in both)
        )

    def of_answer(self, answer: Completion) -> Usage:
        """Return the usage without counts of 0 for a question, or for an answer that is not empty."""
        empty = not (answer.text or answer.tool_calls or answer.reasoning)
        output = self.output_tokens if empty else self.output_tokens or None
        return replace(self, input_tokens=self.input_tokens or None, output_tokens=output)

    def as_json(self) -> dict[str, JSON]:
        """Return the value of the column `usage`: input and output always, the others if the service counts them."""
        counts = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: count for name, count in counts if count is not None or name in _ALWAYS_COUNTED}

    @classmethod
    def of_json(cls, value: JSON) -> Usage:
        """Return the usage that such a value was made of; anything but a whole number counts as absent."""
        counts = value if isinstance(value, dict) else {}
        return cls(*(whole_number(counts.get(each.name)) for each in fields(cls)))


ON_UNANSWERED: ContextVar[Callable[[Usage], object] | None] = ContextVar("on_unanswered", default=None)
"""Called with the usage of each attempt of the current call that was sent and brought no answer; None: not counted."""


def count_unanswered(usage: Usage) -> None:
    """Count an attempt that was sent and brought no answer.

    Raises:
        StopRunError: there is no budget for another attempt.
    """
    if (count := ON_UNANSWERED.get()) is not None:
        count(usage)


_ALWAYS_COUNTED = ("input_tokens", "output_tokens")


class Price(Written, frozen=True):
    """The price of a million tokens. Cached input tokens have the price of input tokens unless they have their own."""

    input_per_million: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    output_per_million: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    currency: Text = "USD"
    cached_input_per_million: Annotated[float, msgspec.Meta(ge=0)] | None = None


_LIMITS = ("max_completion_tokens", "max_tokens", "max_new_tokens", "max_output_tokens")


def output_limit(*parameters: JSON) -> int | None:
    """The most tokens that an answer may have, as the first of these parameters that set a limit say."""
    found = [given.get(name) for given in parameters if isinstance(given, dict) for name in _LIMITS]
    numbers = (number for number in map(whole_number, found) if number)
    return next((number for number in numbers if number > 0), None)


SOME_COLUMNS = ("reasoning", "raw_text", "first_token_ms", "masked")
"""The columns that only some answers have."""


UNPARSED, COMPLETE, BEGUN = "unparsed_calls", "complete", "begun"
"""The column of an answer whose text has calls, though the request had tools and the API returns calls; its values."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a model.

    `text` is its text (None where it only called); `tool_calls` OpenAI tool calls, exactly as they came.
    `latency_ms` counts from sending the request that succeeded to its last byte, waits for limits and retries left out;
    `first_token_ms`, where it was streamed, to the first token of reasoning, text or a call.
    `masked`: it repeated a secret of the request, which is masked.
    `reasoning` is what the model thought; where that stood in the text, `raw_text` is the text with it.
    `reasoning_fields` are the parts of the message that held it, as they came: some APIs want them back.
    """

    text: str | None = None
    tool_calls: tuple[Mapping[str, JSON], ...] = ()
    usage: Usage = Usage()
    latency_ms: float | None = None
    finish_reason: str | None = None
    request_id: str | None = None
    simulated: bool = False
    masked: bool = False
    reasoning: str | None = None
    raw_text: str | None = None
    first_token_ms: float | None = None
    reasoning_fields: Mapping[str, JSON] = field(default_factory=dict)

    def columns(self) -> dict[str, JSON]:
        """The completion as a target's output columns; `response` is the calls where it called, else the text."""
        calls: list[JSON] = [dict(call) for call in self.tool_calls]
        columns: dict[str, JSON] = {"response": calls or self.text, "text": self.text, "tool_calls": calls or None}
        columns["usage"] = self.usage.as_json()
        for name in ("latency_ms", "finish_reason", "request_id", "simulated", *SOME_COLUMNS):
            value: JSON = getattr(self, name)
            if name not in SOME_COLUMNS or not (value is None or value is False or value == ""):
                columns[name] = value
        return columns

    def journaled(self) -> dict[str, JSON]:
        """Return the JSON from which `of_columns` makes the same completion, with the reasoning that is sent back."""
        kept = {**self.columns(), "reasoning_fields": dict(self.reasoning_fields) or None}
        del kept["response"]
        return {name: value for name, value in kept.items() if value is not None and value is not False}

    @classmethod
    def of_columns(cls, columns: Mapping[str, JSON]) -> Completion:
        """The completion that such columns were made of; a value of another type counts as absent."""
        calls, thoughts = columns.get("tool_calls"), columns.get("reasoning_fields")
        known: dict[str, Any] = {name: text_or_none(columns.get(name)) for name in _TEXTS}
        known |= {name: real_number(columns.get(name)) for name in ("latency_ms", "first_token_ms")}
        known |= {name: columns.get(name) is True for name in ("simulated", "masked")}
        return cls(
            tool_calls=tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
            usage=Usage.of_json(columns.get("usage")),
            reasoning_fields=thoughts if isinstance(thoughts, dict) else {},
            **known,
        )


_TEXTS = ("text", "finish_reason", "request_id", "reasoning", "raw_text")


def mask_answer(answer: Completion, redactor: Redactor) -> Completion:
    """The answer with secrets that it repeats masked.

    Raises:
        ValueError: it is nested too deeply to be kept.
    """
    kept = answer.journaled()
    hidden = redactor.answer(kept)
    assert isinstance(hidden, dict)
    return answer if hidden == kept else replace(Completion.of_columns(hidden), masked=True)


def time_text(at: datetime) -> str:
    """A moment as ISO 8601 in UTC: `2026-03-05T09:30:00Z`, with microseconds where there are any.

    Raises:
        ValueError: it has no time zone.
    """
    if at.tzinfo is None:
        raise ValueError("a request's sent_at needs a time zone")
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def text_or_none(value: JSON) -> str | None:
    return value if isinstance(value, str) else None


def content_parts(message: Mapping[str, JSON]) -> list[JSON]:
    """The texts of a message's content, whole or in parts; a part without text stays what it is."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    return [part.get("text") if isinstance(part, dict) else part for part in parts]


SentBack: TypeAlias = Literal["turn", "conversation", "never"]

_OPERATIONAL = ("auth", "allow_http", "timeout_s", "retries", "max_reply_bytes", "limits", "price")


def deciding(settings: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the settings that can change answers: no sign-in, timeout, retries, limits or price."""
    return {key: value for key, value in settings.items() if key not in _OPERATIONAL}


class Endpoint(UserCalls, ABC):
    """A model that answers chat requests. Safe for many concurrent calls within one event loop.

    The calls of a user's class run in an event loop of their own, so that a blocking one delays no others. A call that
    takes longer than `limit_s` seconds ends in a TimedOutError.

    `config_type`: what a definition of this kind holds; None where it is not made from one.
    `depends_on_row`: its answers depend on more of the row than messages, tools and parameters.
    `concurrency`: how many calls at once it takes at most, None where it sets no limit.
    `limits_concurrency`: it enforces that limit itself, however many calls are made at once.
    `sent_back`: how long a conversation gives the model its own reasoning back: within the turn, in all turns, never.
    `profile`: the model family that its definition names as `format`. `tools_as_text`: the prompt describes the tools.
    `facts`: refusals of its API so far.
    """

    awaited = ("complete", "reply", "reset", "advance")
    kind: ClassVar[str]
    config_type: ClassVar[type[EndpointConfig] | None] = None
    name: str
    simulated: bool = False
    depends_on_row: bool = False
    concurrency: int | None = None
    answers_single_questions: ClassVar[bool] = True
    """False for an endpoint that holds whole conversations; `check` cannot ask it a single question."""
    limits_concurrency: ClassVar[bool] = False
    price: Price | None = None
    facts: ApiFacts = ApiFacts()
    sent_back: SentBack = "turn"
    profile: Profile | None = None
    tools_as_text: bool = False

    @property
    def returns_calls(self) -> bool:
        """True if requests hold tools, and the API returns calls apart from the text."""
        return False

    @classmethod
    def from_definition(cls, definition: Definition) -> Endpoint:
        """The endpoint that a definition describes, by default the class called with the definition.

        Raises:
            ConfigurationError: the definition is wrong, or this kind is not made from one.
        """
        if cls.config_type is None:
            raise definition.at("kind").error(f"{cls.__name__} cannot be made from a definition")
        return cls(definition)  # type: ignore[call-arg]  # a kind with a `config_type` takes its definition

    @abstractmethod
    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request, with retries, limits and timeouts as the definition says.

        Raises:
            EndpointError: the call failed for good; its subclass says how.
            StopRunError: the run must stop, every further call would fail in the same way.
        """

    @abstractmethod
    def settings(self) -> dict[str, JSON]:
        """The definition as data, secrets left out: what the manifest shows."""

    @property
    def model_names(self) -> Sequence[str]:
        """Names under which a price file may list the model: the model, then the deployment of the settings."""
        settings = self.settings()
        return [name for key in ("model", "deployment") if isinstance(name := settings.get(key), str) and name]

    def recorded_result(self, row: Row) -> Mapping[str, JSON] | None:
        """Return the recorded conversation of this row, as a line of BFCL's result files; None if the model answers it.

        Raises:
            EndpointError: conversations are recorded here, and this one is not.
        """
        return None

    def load(self) -> Load | None:
        """Return the current and refused numbers of concurrent calls, or None if the endpoint counts none."""
        return None

    def allow(self, concurrency: int) -> None:
        """Set how many concurrent calls to take, where the definition does not say."""

    def rates(self) -> tuple[float | None, float | None]:
        """Requests and tokens a minute that the definition allows; None: no such limit."""
        return None, None

    def share_limits(self, buckets: SharedLimits) -> None:
        """Take requests and tokens from buckets that other processes take from as well."""

    def isolate(self) -> None:
        """Call a user's function in a process that may die, from now on; kinds that call none ignore it."""

    def hide(self, secrets: Redactor) -> None:
        """Mask these, too, which later requests will carry, in answers and errors; kinds that make calls do."""

    def sign(self, user_agent: str) -> None:
        """Append to the User-Agent of later calls; an endpoint without HTTP ignores it."""

    def answer_settings(self) -> dict[str, JSON]:
        """The part of the settings that answers depend on: what the fingerprint is made of."""
        return deciding(self.settings())

    async def close(self) -> None:
        """Close connections. A later call opens new ones."""


class ModelCalls(Protocol):
    """How evaluators ask models: directly, or in a run through its journal, cache and budget."""

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        """Answer one request; equal requests with equal `sample` may share one answer.

        Raises:
            EndpointError: the call failed for good.
            StopRunError: the run must stop: its budget is spent, or every further call would fail in the same way.
        """
        ...


class DirectCalls:
    """Asks the endpoint each time: for evaluators that are called outside a run."""

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        return await endpoint.complete(request)


# -- prices from a file


class PriceFile(Written, frozen=True):
    """A file of prices; `currency` is that of the models that name none."""

    currency: Text = "USD"
    models: dict[str, Price] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class Prices:
    """Prices by model, deployment or endpoint name."""

    by_name: Mapping[str, Price]

    def give(self, endpoint: object) -> None:
        """Give an endpoint its price, where it has none of its own; what is not an endpoint gets none."""
        if not isinstance(endpoint, Endpoint) or endpoint.price is not None:
            return
        for name in (*endpoint.model_names, endpoint.name):
            if name in self.by_name:
                endpoint.price = self.by_name[name]
                return


def read_prices(path: Path) -> Prices:
    """Return the prices that a YAML file gives.

        currency: USD
        models:
          gpt-4o-mini: {input_per_million: 0.15, output_per_million: 0.60}
          judge: {input_per_million: 2.0, output_per_million: 8.0, currency: EUR}

    A name is a model, a deployment, or what an endpoint is called.
    """
    from tunecheck._yaml import read_yaml

    document = read_yaml(path)
    if not isinstance(document.value, dict):
        raise ConfigurationError(f"{path}: a price file is a mapping with `models:`")
    file = read_as(document.value, PriceFile, document.where)
    given = cast("dict[str, dict[str, object]]", document.value.get("models") or {})
    return Prices(
        msgspec.convert({name: {"currency": file.currency, **own} for name, own in given.items()}, dict[str, Price])
    )


# -- definitions

Text = Annotated[str, msgspec.Meta(min_length=1)]
"""A text that is not empty."""


class EndpointConfig(Written, frozen=True, kw_only=True):
    """The keys of every definition. A kind of your own adds its keys, with their types and defaults, in a subclass.

    `format`: the model family that decides how calls are read from text. `tools`: `text` describes the tools in the
    prompt, in the family's form, instead of sending them to the API.
    """

    kind: Text
    format: Text = AUTO
    tools: Literal["api", "text"] = "api"


class ConcurrencyLimit(Written, frozen=True):
    """The maximum number of concurrent calls."""

    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 16


C = TypeVar("C", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Place:
    """A value within a definition, for errors about it."""

    document: Document
    path: tuple[str | int, ...] = ()

    def at(self, *path: str | int) -> Place:
        """A place below this one."""
        return Place(self.document, (*self.path, *path))

    def error(self, problem: str) -> ConfigurationError:
        """The error to raise about this value: in which file and line, at which key, what is wrong."""
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).lstrip(".")
        label = f"{steps}: " if steps else ""
        return ConfigurationError(f"{self.document.where(*self.path)}: {label}{problem}")


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition as it was written, references to the environment unresolved; `kind` is what reads it.

    `name` is what the endpoint is called in results and errors; `folder` is where relative paths are looked for.
    """

    document: Document
    data: Mapping[str, JSON]
    kind: str
    name: str
    folder: Path

    def read(self, config: type[C]) -> C:
        """The definition as its kind describes it. A key with nothing behind it counts as absent.

        Raises:
            ConfigurationError: a key is unknown or missing, or its value is not of its type.
        """
        known = {field.encode_name for field in msgspec.structs.fields(config)}
        given = {key: value for key, value in self.data.items() if value is not None or key not in known}
        return read_as(given, config, self.document.where)

    def at(self, *path: str | int) -> Place:
        """A value of this definition, for errors about it."""
        return Place(self.document, path)

    def file(self, path: str) -> Path:
        """A file that the definition names, looked for from its own folder."""
        return self.folder / Path(path).expanduser()
