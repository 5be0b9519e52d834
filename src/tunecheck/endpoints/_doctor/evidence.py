"""The evidence for the doctor's checks: its questions with their right answers, the server, the endpoint's answers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import msgspec

from tunecheck._errors import ContentFilterError, EndpointError, ReplyError, StopRunError
from tunecheck._faults import CUT_OFF, cause_named
from tunecheck._json import JSON, dumps, object_or_empty, value_of
from tunecheck._messages import clean
from tunecheck.calls._model import FunctionCall, Reading, plain_name, read_leniently
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint
from tunecheck.endpoints._http_endpoint import HttpConfig, HttpEndpoint
from tunecheck.formats._families import ServerParsers
from tunecheck.formats._reading import read_calls

# -- the questions of `questions.json`; each has one right answer, which any model with function calling finds


class RightAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The right answer to a question: a part of its text, or a call of this function with these arguments."""

    text: str = ""
    function: str = ""
    arguments: dict[str, Any] = {}


class _DoctorQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    messages: list[dict[str, Any]]
    tools: list[str] = []
    parameters: dict[str, Any] = {}
    right: RightAnswer | None = None


class _QuestionFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of questions.json; questions name their functions."""

    functions: list[dict[str, Any]]
    questions: dict[str, _DoctorQuestion]


_QUESTION_FILE = msgspec.json.decode(files(__package__).joinpath("questions.json").read_bytes(), type=_QuestionFile)
_TOOLS: Mapping[str, Mapping[str, JSON]] = {
    function["name"]: {"type": "function", "function": function} for function in _QUESTION_FILE.functions
}

QUESTIONS: Mapping[str, ChatRequest] = {
    name: ChatRequest(question.messages, [_TOOLS[tool] for tool in question.tools] or None, question.parameters)
    for name, question in _QUESTION_FILE.questions.items()
}

RIGHT: Mapping[str, RightAnswer] = {name: row.right for name, row in _QUESTION_FILE.questions.items() if row.right}
"""The right answers by question. Questions without one are only compared with other questions."""


# -- the program that serves the model, by its list of models, reply headers and characteristic addresses

Subject: TypeAlias = Literal["calls", "tools", "reasoning", "length", "stop"]
"""Settings of a program in servers.toml, by the problem that they solve."""

_UNKNOWN = ("vLLM", "SGLang", "llama.cpp")
"""The programs named in advice if the program is unknown."""


class _ServerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of servers.toml."""

    owners: dict[str, str]
    pages: dict[str, list[str]]
    settings: dict[str, dict[Subject, str]]


_SERVERS = msgspec.toml.decode(files(__package__).joinpath("servers.toml").read_bytes(), type=_ServerFile)


class Serving(msgspec.Struct, frozen=True):
    """The program that serves a model ("" if unknown), how it was recognised, context length and models on offer."""

    program: str = ""
    told_by: str = ""
    guess: bool = False
    on_azure_ml: bool = False
    context: int | None = None
    models: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = " on ".join(filter(None, (self.program, "Azure ML" if self.on_azure_ml else "")))
        return f"{name} ({'guessed' if self.guess else 'known'} from {self.told_by})" if self.told_by else name

    def advice(self, subject: Subject, parsers: ServerParsers | None = None) -> str:
        """Return the program's settings for a subject, or those of common programs if the program is unknown.

        `parsers` are the tool parsers for the format in which the model writes calls, if that is known.
        """
        assumed = _UNKNOWN[:1] if self.on_azure_ml else _UNKNOWN
        names = (self.program,) if self.program else assumed
        parser_names = {"vLLM": parsers.vllm, "SGLang": parsers.sglang} if parsers else {}

        settings = []
        for name in names:
            parser, setting = parser_names.get(name, "of the model's family"), _SERVERS.settings[name][subject]
            settings.append(f"{name}: {setting.format(parser=parser) if parser else 'no parser for this form'}")

        text = "; ".join(settings)
        if self.on_azure_ml:
            text = f"in the deployment's environment, for {text}"
        if self.guess or (self.on_azure_ml and not self.program):
            text += f" (assuming that the server is {names[0]})"
        if parsers is not None and parsers.guess:
            text += " (the parser is a guess: families share this format)"
        return text


async def find_serving(endpoint: HttpEndpoint[HttpConfig]) -> Serving:
    """Find the program that serves an endpoint. Call it after an answer, whose headers are the first evidence.

    The first sign decides:

    1. The list of models says that a known program owns a model.
    2. The header `server` is that of llama.cpp, or the header `x-compute-type` that of TGI.
    3. An address that only one program has returns an object with certain keys (`pages` of servers.toml).
    4. `/version` returns only `version`, as in vLLM. This is a guess, and so is the next sign.
    5. The port is 11434, Ollama's default.

    Azure OpenAI is not examined.
    """
    if endpoint.kind == "azure_openai":
        return Serving()

    headers = {name.lower(): value.lower() for name, value in endpoint.reply_headers().items()}
    server = headers.get("x-ms-server-version", "")
    azure = "azmlinfsrv" in server or any(name.startswith("azureml-") for name in headers)

    cards = await endpoint.models()
    lengths = [length for card in cards if isinstance(length := card.get("max_model_len"), int) and length > 0]
    names = tuple(str(card.get("id")) for card in cards)
    serving = functools.partial(Serving, on_azure_ml=azure, context=min(lengths, default=None), models=names)

    for owner in (str(card.get("owned_by")) for card in cards):
        if owner in _SERVERS.owners:
            return serving(_SERVERS.owners[owner], f"the field owned_by ({owner}) in its list of models")

    if "llama.cpp" in headers.get("server", ""):
        return serving("llama.cpp", "its header server")
    if "x-compute-type" in headers:
        return serving("TGI", "its header x-compute-type")
    # By path: the program that has the page, and the keys of the page.
    pages = [*_SERVERS.pages.items(), ("/version", ["vLLM", "version"])]

    replies = await asyncio.gather(*(endpoint.look(path) for path, _ in pages))
    for (path, (name, *keys)), reply in zip(pages, replies, strict=True):
        is_version = path == "/version"  # a weak sign, so no other keys may be there
        if isinstance(reply, dict) and (reply.keys() == {*keys} if is_version else reply.keys() >= {*keys}):
            return serving(name, f"its address {path}", is_version)

    is_port = ":11434/" in str(endpoint.settings()["url"])
    return serving("Ollama", "its port 11434", guess=True) if is_port else serving()


# -- the answers

Status: TypeAlias = Literal["pass", "warn", "fail", "skip"]
"""`skip`: there was nothing to check."""


class Diagnosis(msgspec.Struct, frozen=True):
    """The finding of one check: status, evidence, advice, and the keys of the definition to change."""

    status: Status
    evidence: str
    advice: str = ""
    change: Mapping[str, JSON] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class DoctorAnswer:
    """The outcome of one question: a completion or an error."""

    request: ChatRequest
    completion: Completion = field(default_factory=Completion)
    error: Exception | None = None

    @property
    def refusal(self) -> str:
        """The message of the error, without the general advice."""
        if isinstance(self.error, EndpointError) and self.error.said:
            return clean(f"{self.error.status}: {self.error.said}", 200)
        return clean(str(self.error or ""), 200)

    @property
    def text(self) -> str:
        return self.completion.text or ""

    @property
    def raw_text(self) -> str:
        """The text, including reasoning in the text."""
        return self.completion.raw_text or self.text

    @property
    def ended_by_length(self) -> bool:
        return self.completion.finish_reason in CUT_OFF

    @cached_property
    def text_reading(self) -> Reading:
        """The calls in the text."""
        return read_calls(self.text, tools=list(self.request.tools or ()))

    @property
    def cause_of_lost_call(self) -> str | None:
        """The cause of an unreadable or lost call (in the reasoning, or only in the finish reason), or None."""
        if self.completion.tool_calls or self.text_reading.calls:
            return None
        # Reasoning is searched with the same reader as texts.
        thought = read_calls(self.completion.reasoning or "", tools=list(self.request.tools or ()))
        if self.text_reading.cause == "call_in_reasoning" or (thought.complete_calls and not self.text.strip()):
            return "call_in_reasoning"
        if self.completion.finish_reason == "tool_calls":
            return "call_lost_by_parser"
        return "unreadable" if self.text_reading.problem and not self.ended_by_length else None

    @cached_property
    def is_read_from_text(self) -> bool:
        """True if the `tool_calls` were read from the text because of the definition's `format`."""
        original = self.completion.raw_text if self.completion.tool_calls else None
        return bool(original) and bool(read_calls(original, tools=list(self.request.tools or ())).calls)

    @cached_property
    def calls(self) -> tuple[FunctionCall, ...]:
        """The API's calls, else those in the text; arguments are decoded, even if encoded repeatedly or not at all."""
        called = [FunctionCall(name, _object(arguments)) for name, arguments in self.written_calls]
        return tuple(called) or self.text_reading.calls

    @property
    def written_calls(self) -> Iterator[tuple[str, JSON]]:
        """The names and undecoded arguments of the `tool_calls`."""
        for call in self.completion.tool_calls:
            function = call.get("function")
            if isinstance(function, dict):
                yield str(function.get("name")), function.get("arguments")

    def shown(self) -> str:
        """Return the calls or the text for people, shortened."""
        calls = "; ".join(f"{call.name} {dumps(call.arguments).decode()}" for call in self.calls)
        return clean(calls or self.text, 160) or "nothing"

    def arguments_of(self, name: str) -> Mapping[str, JSON] | None:
        """Return the arguments of the first call of a function, even with a prefix before its name, or None."""
        last = plain_name(name)
        return next((call.arguments for call in self.calls if plain_name(call.name).endswith(last)), None)


@dataclass(frozen=True)
class Answers:
    """The answers of an endpoint by question, with its definition and the program that serves the model."""

    by_question: Mapping[str, DoctorAnswer]
    endpoint: Endpoint
    definition: Mapping[str, JSON]
    serving: Serving

    def __getitem__(self, question: str) -> DoctorAnswer:
        return self.by_question[question]

    @property
    def parameters_taken(self) -> dict[str, JSON]:
        """The definition's parameters as the API accepts them; suggested changes start from these."""
        return self.endpoint.facts.parameters_of(object_or_empty(self.definition.get("parameters")))

    @property
    def answered(self) -> list[DoctorAnswer]:
        return [answer for answer in self.by_question.values() if not answer.error]

    @cached_property
    def with_calls(self) -> list[DoctorAnswer]:
        """The answers with calls, among questions with tools."""
        return [answer for answer in self.answered if answer.request.tools and answer.calls]

    @property
    def left_in_text(self) -> list[DoctorAnswer]:
        """The answers with calls only in the text."""
        return [answer for answer in self.with_calls if not answer.completion.tool_calls]

    @property
    def without_tools(self) -> str | None:
        """The reason why no request with tools was answered, or None."""
        if self.endpoint.tools_note:
            return "requests contain no tools"
        return None if self["call"].error is None else "requests with tools are refused"

    @property
    def prompt_tokens(self) -> tuple[int, int] | None:
        """Prompt tokens of the same question with and without a tool; None if the service does not report them."""
        tokens = (self["call"].completion.usage.input_tokens, self["untooled"].completion.usage.input_tokens)
        return None if None in tokens else tokens  # type: ignore[return-value]


_ADVICE: tuple[tuple[type[Exception], str], ...] = (
    (ContentFilterError, "the service works, but its content policy declined the sample question"),
    (ReplyError, "check the keys `url` and `response` (the path of the answer in the reply)"),
    (EndpointError, "check url, headers and request against the service's own documentation"),
)


def advice_on(error: Exception) -> str:
    """Return advice on the error of a request."""
    if isinstance(error, StopRunError):
        return cause_named("access_refused").advice
    if isinstance(error, EndpointError) and error.cause:
        return cause_named(error.cause).advice
    return next((text for kind, text in _ADVICE if isinstance(error, kind)), "check the request template")


def _object(arguments: JSON) -> dict[str, JSON]:
    """Return the object in arguments, even if they were encoded several times or fenced; else an empty dict.

    The text of an object, that text written as JSON once more, and the object itself give the same object.
    """
    if not isinstance(arguments, str):
        return object_or_empty(arguments)
    _, decoded = read_leniently(arguments) or ("", object_or_empty(value_of(arguments)))
    return decoded
