"""The interface of every endpoint: a chat request goes in, a completion comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar, cast

import msgspec

from tunecheck._describe import Document, Written, read_as
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, object_or_empty, real_number, text_or_none, whole_number
from tunecheck._targets import Load, Row, UserCalls, sum_known
from tunecheck.endpoints._api_facts import ApiFacts
from tunecheck.formats._reading import AUTO

if TYPE_CHECKING:
    from types import ModuleType

    from tunecheck.endpoints._limits import SharedLimits
    from tunecheck.endpoints._masking import Redactor
    from tunecheck.formats._profiles import Profile


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request: OpenAI-style messages and tools.

    `parameters` override those of the definition. `row` is the data set row of the request, if it has one: recorded
    and simulated endpoints find their answer by it, and request templates may name its columns. `sent_at` is the
    simulated time of a conversation (with a time zone); endpoints over HTTP send it in the header Tunecheck-Time.
    `may_raise_limit`: raise the token limit if the model uses all of it to think. Set for judges, not for the model
    under test.
    """

    messages: Sequence[Mapping[str, JSON]]
    tools: Sequence[Mapping[str, JSON]] | None = None
    parameters: Mapping[str, JSON] = field(default_factory=dict)
    idempotency_key: str | None = None
    row: Row | None = None
    sent_at: datetime | None = None
    may_raise_limit: bool = False


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one call, as the service counted them; None if it did not report a count.

    `cached_input_tokens` is the part of the input that the service read from its cache. `reasoning_tokens` is the part
    of the output that is reasoning.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """Add the tokens of two calls; a count that neither call reports stays None."""
        return Usage(*(sum_known(getattr(self, name), getattr(other, name)) for name in _COUNTS))

    def of_answer(self, answer: Completion) -> Usage:
        """Return the usage of the call that gave this answer, with impossible counts of 0 replaced by None.

        Input tokens are never 0. Output tokens are 0 only if the answer is empty.
        """
        is_empty = not (answer.text or answer.tool_calls or answer.reasoning)
        output = self.output_tokens if is_empty else self.output_tokens or None
        return Usage(self.input_tokens or None, output, self.cached_input_tokens, self.reasoning_tokens)

    def as_json(self) -> dict[str, JSON]:
        """Return the value of the column `usage`: input and output always, the other counts if they are known."""
        counts = ((name, getattr(self, name)) for name in _COUNTS)
        return {name: count for name, count in counts if count is not None or name in _ALWAYS_COUNTED}

    @classmethod
    def of_json(cls, value: JSON) -> Usage:
        """Read a usage from the value of the column `usage`; a count that is not a whole number becomes None."""
        counts = object_or_empty(value)
        return cls(*(whole_number(counts.get(name)) for name in _COUNTS))


ON_UNANSWERED: ContextVar[Callable[[Usage], object] | None] = ContextVar("on_unanswered", default=None)
"""Callback for each attempt of the current call that was sent but not answered, with the tokens it used; or None."""


def count_unanswered(usage: Usage) -> None:
    """Report a sent attempt without an answer, and the tokens it used, to the callback ON_UNANSWERED if it is set.

    Raises:
        StopRunError: there is no budget for another attempt.
    """
    if (callback := ON_UNANSWERED.get()) is not None:
        callback(usage)


# The names of the counts, in the order of Usage.
_COUNTS = Usage.__struct_fields__
_ALWAYS_COUNTED = ("input_tokens", "output_tokens")


class Price(Written, frozen=True):
    """The price of a million tokens. Cached input tokens cost as much as input tokens unless a price is given."""

    input_per_million: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    output_per_million: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    currency: Text = "USD"
    cached_input_per_million: Annotated[float, msgspec.Meta(ge=0)] | None = None


_OUTPUT_LIMITS = ("max_completion_tokens", "max_tokens", "max_new_tokens", "max_output_tokens")
"""Names of the limit of output tokens in different APIs, in the order in which they are searched."""


def output_limit(*parameters: JSON) -> int | None:
    """Return the limit of output tokens in the first of these parameter mappings that has one above 0, or None."""
    values = [mapping.get(name) for mapping in parameters if isinstance(mapping, dict) for name in _OUTPUT_LIMITS]
    return next((limit for limit in map(whole_number, values) if limit is not None and limit > 0), None)


SOME_COLUMNS = ("reasoning", "raw_text", "first_token_ms", "masked")
"""Columns that only some answers have."""


UNPARSED, COMPLETE, BEGUN = "unparsed_calls", "complete", "begun"
"""A column for calls that the API left in the answer's text instead of parsing them, and its two values.

`complete`: a whole call was left. `begun`: only the beginning of a call was left.
"""


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a model.

    `text` is None if the model only called functions. `tool_calls` are OpenAI tool calls, unchanged.
    `latency_ms` is the time from sending the successful attempt to its last byte, without waits and retries.
    `first_token_ms` is the time to the first token (reasoning, text or call) of a streamed answer.
    `masked`: the answer repeated a secret of the request, which is now masked.
    `raw_text` is the text with the model's `reasoning` in it, if the model wrote its reasoning into the text.
    `reasoning_fields` are the parts of the message with the reasoning, unchanged, because some APIs need them back.
    """

    text: str | None = None
    tool_calls: tuple[Mapping[str, JSON], ...] = ()
    usage: Usage = field(default_factory=Usage)
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
        """Return the output columns of a target; `response` contains the calls, or the text if there are no calls.

        Columns of SOME_COLUMNS without a value are left out.
        """
        calls: list[JSON] = [dict(call) for call in self.tool_calls]
        columns: dict[str, JSON] = {
            "response": calls or self.text,
            "text": self.text,
            "tool_calls": calls or None,
            "usage": self.usage.as_json(),
            "latency_ms": self.latency_ms,
            "finish_reason": self.finish_reason,
            "request_id": self.request_id,
            "simulated": self.simulated,
        }

        # The columns of SOME_COLUMNS without a value would make each row longer.
        for name in SOME_COLUMNS:
            value: JSON = getattr(self, name)
            if value is not None and value is not False and value != "":
                columns[name] = value
        return columns

    def journaled(self) -> dict[str, JSON]:
        """Return the JSON object for the journal, from which `of_columns` restores the completion.

        Absent values are left out, and so is `response`, which repeats the calls or the text.
        """
        columns = {**self.columns(), "reasoning_fields": dict(self.reasoning_fields) or None}
        del columns["response"]
        return {name: value for name, value in columns.items() if value is not None and value is not False}

    @classmethod
    def of_columns(cls, columns: Mapping[str, JSON]) -> Completion:
        """Restore a completion from its columns; a value of the wrong type counts as absent."""
        calls = columns.get("tool_calls")

        scalars: dict[str, Any] = {name: text_or_none(columns.get(name)) for name in _TEXTS}
        scalars |= {name: real_number(columns.get(name)) for name in ("latency_ms", "first_token_ms")}
        scalars |= {name: columns.get(name) is True for name in ("simulated", "masked")}

        return cls(
            tool_calls=tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
            usage=Usage.of_json(columns.get("usage")),
            reasoning_fields=object_or_empty(columns.get("reasoning_fields")),
            **scalars,
        )


# The fields of a completion that are texts.
_TEXTS = ("text", "finish_reason", "request_id", "reasoning", "raw_text")


def mask_answer(answer: Completion, redactor: Redactor) -> Completion:
    """Return the answer with every secret in it masked; its field `masked` is True if there was one.

    Raises:
        ValueError: the answer is nested too deeply to be stored.
    """
    # Most answers repeat no secret, and their texts alone show that. They are nested as deeply here as in the columns
    # below, so the limit of depth is the same.
    texts: list[JSON] = [answer.text, answer.raw_text, answer.reasoning, answer.finish_reason, answer.request_id]
    texts += [[dict(call) for call in answer.tool_calls], dict(answer.reasoning_fields)]
    if redactor.answer(texts) is texts:
        return answer

    columns = answer.journaled()
    masked = object_or_empty(redactor.answer(columns))
    return answer if masked == columns else replace(Completion.of_columns(masked), masked=True)


def time_text(moment: datetime) -> str:
    """Return a moment in ISO 8601 and UTC, such as `2026-03-05T09:30:00Z`, with microseconds unless they are 0.

    Raises:
        ValueError: the moment has no time zone.
    """
    if moment.tzinfo is None:
        raise ValueError("sent_at of a request has no time zone: pass a datetime with one, such as datetime.now(UTC)")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def content_parts(message: Mapping[str, JSON]) -> list[JSON]:
    """Return the parts of a message's content: for an object its `text` (or None), any other part unchanged.

    Content that is not a list counts as one part.
    """
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    return [part.get("text") if isinstance(part, dict) else part for part in parts]


SentBack: TypeAlias = Literal["turn", "conversation", "never"]

_OPERATIONAL = ("auth", "allow_http", "timeout_s", "retries", "max_reply_bytes", "limits", "price")
"""Keys of a definition that change how the service is called, but not its answers."""


def settings_of_answers(settings: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the settings that can change answers: all except sign-in, timeouts, retries, limits and price."""
    return {key: value for key, value in settings.items() if key not in _OPERATIONAL}


class Endpoint(UserCalls, ABC):
    """A model that answers chat requests. Safe for many concurrent calls within one event loop.

    The calls of a user's class run in a separate event loop, so that a blocking call delays no others. A call that
    takes longer than `limit_s` seconds ends in a TimedOutError.

    `config_type`: the keys of a definition of this kind; the constructor then takes a `Definition`. None if no
    definition can describe the endpoint.
    `depends_on_row`: answers depend on more of the row than messages, tools and parameters.
    `concurrency`: the maximum number of concurrent calls, or None for no limit.
    `limits_concurrency`: the endpoint enforces that limit itself.
    `pure`: it changes no request, and its answers are read from JSON, so the run copies neither.
    `sent_back`: when a conversation sends the model its own reasoning back: within the turn, in all turns, or never.
    `profile`: the model family named by `format`. `tools_as_text`: the prompt describes the tools.
    `facts`: what the API's errors and answers have shown so far, such as refused parameters.
    `model_names`: the names of the model or deployment, under which a price file may list it.
    `rates`: the definition's limits of requests and tokens per minute; None means no limit.
    """

    awaited = ("complete", "reply", "reset", "advance")
    kind: ClassVar[str]
    config_type: ClassVar[type[EndpointConfig] | None] = None
    name: str
    simulated: bool = False
    depends_on_row: bool = False
    concurrency: int | None = None
    answers_single_questions: ClassVar[bool] = True
    """False for an endpoint that only runs whole conversations; `check` cannot send it a single question."""
    limits_concurrency: ClassVar[bool] = False
    pure: ClassVar[bool] = False
    price: Price | None = None
    facts: ApiFacts = ApiFacts()
    model_names: tuple[str, ...] = ()
    rates: tuple[float | None, float | None] = (None, None)
    sent_back: SentBack = "turn"
    profile: Profile | None = None
    tools_as_text: bool = False

    @property
    def is_chat(self) -> bool:
        """True if the endpoint uses OpenAI's chat completions, with streams and tools."""
        return False

    @property
    def returns_calls(self) -> bool:
        """True if requests hold tools, and the API returns calls apart from the text."""
        return False

    @property
    def tools_note(self) -> str:
        """A sentence for users if requests never contain the tools, else ""."""
        return ""

    @abstractmethod
    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request, with the retries, limits and timeouts of the definition.

        Raises:
            EndpointError: the call failed after all retries; the subclass names the cause.
            StopRunError: the run must stop: its budget is spent, or every further call would fail in the same way.
        """

    @abstractmethod
    def settings(self) -> dict[str, JSON]:
        """Return the definition as data without secrets, for the manifest."""

    def recorded_result(self, row: Row) -> Mapping[str, JSON] | None:
        """Return the recorded conversation of this row, as a line of BFCL's result files.

        None means that there is no recorded conversation, so the row must be sent to the model.

        Raises:
            EndpointError: the endpoint has recorded conversations, but none for this row.
        """
        return None

    def reply_headers(self) -> Mapping[str, str]:
        """Return the headers of the latest reply; empty for an endpoint without HTTP."""
        return {}

    def load(self) -> Load | None:
        """Return the concurrency, attempts and overloads so far, or None if the endpoint does not count them."""
        return None

    def allow(self, concurrency: int) -> None:
        """Set the maximum number of concurrent calls, unless the definition sets it.

        Endpoints without HTTP ignore this.
        """

    def share_limits(self, buckets: SharedLimits) -> None:
        """Use rate-limit buckets that are shared with other processes. Endpoints without HTTP ignore this."""

    def hide(self, secrets: Redactor) -> None:
        """Also mask these secrets of later requests in answers and errors. Kinds that make no calls ignore this."""

    def sign(self, user_agent: str) -> None:
        """Append to the User-Agent header of later calls. Endpoints without HTTP ignore this."""

    def answer_settings(self) -> dict[str, JSON]:
        """Return the settings that answers depend on; the fingerprint is their hash."""
        return settings_of_answers(self.settings())

    async def close(self) -> None:
        """Close connections, if the endpoint has any. A later call opens new ones."""


def source_hash(module: ModuleType | None) -> str:
    """Return a hash of a module's source file; of an empty text if the file is unknown or cannot be read."""
    raw = b""
    with suppress(OSError):
        raw = Path(getattr(module, "__file__", None) or "").read_bytes()
    return blake2b(raw, digest_size=8).hexdigest()


class ModelCalls(Protocol):
    """Model calls of evaluators: direct, or in a run through its journal, cache and budget."""

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        """Answer one request; equal requests with equal `sample` may share one answer.

        Raises:
            EndpointError: the call failed after all retries.
            StopRunError: the run must stop: its budget is spent, or every further call would fail in the same way.
        """
        ...


class DirectCalls:
    """Calls the endpoint each time, for evaluators outside a run."""

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        return await endpoint.complete(request)


# -- prices from a file


class PriceFile(Written, frozen=True):
    """A file of prices; `currency` is the default for models without a currency."""

    currency: Text = "USD"
    models: dict[str, Price] = msgspec.field(default_factory=dict)


class Prices(msgspec.Struct, frozen=True):
    """Prices by model, deployment or endpoint name."""

    by_name: Mapping[str, Price]

    def give(self, endpoint: object) -> None:
        """Set the price of an endpoint without a price: that of its model, deployment or own name, if listed.

        Objects of other types are ignored.
        """
        if isinstance(endpoint, Endpoint) and endpoint.price is None:
            names = (*endpoint.model_names, endpoint.name)
            endpoint.price = next((self.by_name[name] for name in names if name in self.by_name), None)


def read_prices(path: Path) -> Prices:
    """Read prices from a YAML file, by the name of a model, a deployment or an endpoint.

        currency: USD
        models:
          gpt-4o-mini: {input_per_million: 0.15, output_per_million: 0.60}
          judge: {input_per_million: 2.0, output_per_million: 8.0, currency: EUR}

    Raises:
        ConfigurationError: the file is unreadable, or has an unknown key or a wrong value.
    """
    from tunecheck._yaml import read_yaml

    document = read_yaml(path)
    if not isinstance(document.value, dict):
        raise ConfigurationError(f"{path}: the price file must be a mapping: write prices below the key `models`")
    file = read_as(document.value, PriceFile, document.where)

    # A model without a currency has the currency of the file.
    models = cast("dict[str, dict[str, object]]", document.value.get("models") or {})
    prices = {name: {"currency": file.currency, **price} for name, price in models.items()}
    return Prices(msgspec.convert(prices, dict[str, Price]))


# -- definitions

Text = Annotated[str, msgspec.Meta(min_length=1)]
"""A nonempty text."""


class EndpointConfig(Written, frozen=True, kw_only=True):
    """The keys of every definition. A custom kind adds its keys, with types and defaults, in a subclass.

    `format`: the model family; calls in text are read in its format. `tools: text` describes the tools in the prompt,
    in that format, instead of sending them to the API.
    """

    kind: Text
    format: Text = AUTO
    tools: Literal["api", "text"] = "api"


class ConcurrencyLimit(Written, frozen=True):
    """The maximum number of concurrent calls."""

    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 16


C = TypeVar("C", bound=msgspec.Struct)


class Place(msgspec.Struct, frozen=True):
    """The place of a value in a file that people write. Errors about the value have the type `kind`."""

    document: Document
    path: tuple[str | int, ...] = ()
    kind: type[ConfigurationError] = ConfigurationError

    def at(self, *path: str | int) -> Place:
        """Return a place below this one."""
        return Place(self.document, (*self.path, *path), self.kind)

    def error(self, problem: str) -> ConfigurationError:
        """Return an error about this value that names the file, the line and the key."""
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).lstrip(".")
        label = f"{steps}: " if steps else ""
        return self.kind(f"{self.document.where(*self.path)}: {label}{problem}")


class Definition(msgspec.Struct, frozen=True):
    """A definition as it was written, with references to the environment unresolved.

    `name` is the endpoint's name in results and errors. Relative paths are relative to `folder`.
    """

    document: Document
    data: Mapping[str, JSON]
    kind: str
    name: str
    folder: Path

    def read(self, config: type[C]) -> C:
        """Return the definition as the kind's config type. A known key without a value (null) counts as absent.

        Raises:
            ConfigurationError: a key is unknown or missing, or its value has the wrong type.
        """
        known = {field.encode_name for field in msgspec.structs.fields(config)}
        settings = {key: value for key, value in self.data.items() if value is not None or key not in known}
        return read_as(settings, config, self.document.where)

    def at(self, *path: str | int) -> Place:
        """Return the place of a value in this definition, for errors about it."""
        return Place(self.document, path)

    def file(self, path: str) -> Path:
        """Return the path of a file that the definition names, relative to the definition's folder."""
        return self.folder / Path(path).expanduser()
