"""A model that answers by a YAML file of rules: the first rule that holds for a request answers it.

Texts are searched for exactly: there are no patterns that could take long.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from aiohttp import web
from tests.scripted_behaviour import TOKEN, Behaviour, Said, ServerConfig

from tunecheck import ConfigurationError, NoAnswerError
from tunecheck.calls import FunctionCall
from tunecheck.endpoints import ChatRequest, Completion, Text, Usage, content_key, content_parts
from tunecheck.plugins import JSON, Written, dumps, read_as, read_yaml
from tunecheck_serve import ChatSource, ModelServer, ProblemError, json_reply, read_object
from tunecheck_serve._server import chat_completion, chat_question

_SHOWN = 80

_FILTERED_PROMPT = (
    "The response was filtered due to the prompt triggering the service's content management policy. "
    "Please modify your prompt and retry."
)
_CATEGORIES = ("hate", "self_harm", "sexual", "violence")


@dataclass(eq=False)
class ScriptedProblemError(ProblemError):
    """An error with what only some services say; `inner` is what Azure adds as its `innererror`."""

    retry_after_s: float | None = None
    inner: Mapping[str, JSON] | None = None

    def body(self) -> dict[str, JSON]:
        error: dict[str, JSON] = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        if self.inner is not None:
            error |= {"status": self.status, "innererror": dict(self.inner)}
        return {"error": error}

    def headers(self) -> dict[str, str]:
        seconds = self.retry_after_s
        if seconds is None:
            return ProblemError.headers(self)
        # OpenAI's own clients read retry-after-ms first; Retry-After can only say whole seconds.
        exact = {} if seconds == int(seconds) else {"retry-after-ms": f"{seconds * 1000:.0f}"}
        return {"Retry-After": str(math.ceil(seconds)), **exact}


Texts: TypeAlias = Text | Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class Question:
    """Input of rules: a request's texts, its last speaker, the parameters besides messages (tools count as one)."""

    user: str
    system: str
    request: str
    last: JSON
    parameters: Mapping[str, JSON]


class Words(Written, frozen=True):
    """Texts to find: all of these, at least one of those, and none of the last."""

    all: Texts | None = None
    any: Texts | None = None
    none: Texts | None = None

    def hold(self, text: str) -> bool:
        return (
            all(word in text for word in _listed(self.all))
            and (not self.any or any(word in text for word in _listed(self.any)))
            and not any(word in text for word in _listed(self.none))
        )


class Condition(Written, frozen=True):
    """The conditions on a request under which a rule holds; bare texts must all stand there."""

    user: Texts | Words | None = None
    system: Texts | Words | None = None
    request: Texts | Words | None = None
    last: Literal["user", "tool"] | None = None
    tools: bool | None = None

    def holds(self, question: Question) -> bool:
        if self.tools is not None and ("tools" in question.parameters) != self.tools:
            return False
        if self.last is not None and question.last != self.last:
            return False
        texts = ((self.user, question.user), (self.system, question.system), (self.request, question.request))
        return all((words if isinstance(words, Words) else Words(words)).hold(text) for words, text in texts)


class UsageConfig(Written, frozen=True):
    """The tokens that an answer tells; a count that is left out is not told."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None


class CallConfig(Written, frozen=True):
    """A call that the model makes."""

    name: Text
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class RuleConfig(Written, frozen=True, kw_only=True):
    """One rule in its written form: which requests (`times`: only so many of them), and what they get."""

    name: Text | None = None
    when: Condition = Condition()
    times: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    answer: Any = None
    answers: Annotated[list[Any], msgspec.Meta(min_length=1)] | None = None
    calls: Annotated[list[CallConfig], msgspec.Meta(min_length=1)] | None = None
    reasoning: Text | None = None
    behaviour: Behaviour | None = None
    refusal: Text | None = None
    content_filter: Literal["prompt", "answer"] | None = None
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    reject: Text | Annotated[dict[Text, Text], msgspec.Meta(min_length=1, max_length=1)] | None = None
    fenced: bool | None = None
    around: Text | None = None
    truncate_at: Count | None = None
    usage: UsageConfig | None = None
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    message: Text | None = None


class ScriptFile(Written, frozen=True):
    """A script in its written form; `name` is offered as the model's name, `behaviour` is that of rules without one."""

    rules: Annotated[list[RuleConfig], msgspec.Meta(min_length=1)]
    name: Text | None = None
    server: ServerConfig = ServerConfig()
    behaviour: Behaviour = Behaviour()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, checked: the model's outputs, in turn, and the changes to them; or an error reply."""

    name: str
    config: RuleConfig
    behaviour: Behaviour
    outcome: tuple[Said, ...] | ProblemError

    def holds(self, question: Question) -> bool:
        if not self.config.when.holds(question):
            return False
        if self.config.reject is None:
            return True
        name, kind = _rejected(self.config.reject)
        value = question.parameters.get(name)
        return value is not None and (kind is None or (isinstance(value, dict) and value.get("type") == kind))


@dataclass(frozen=True, slots=True)
class Script:
    """The rules of a file, in order. `name` is offered as the model's name, `file` is for people."""

    name: str
    file: str
    rules: tuple[Rule, ...]
    server: ServerConfig


def read_script(path: Path | str) -> Script:
    """The script in a YAML file."""
    document = read_yaml(path)
    if not isinstance(document.value, dict):
        raise ConfigurationError(f"{path}: a script is a mapping with `rules:`, a list")
    file = read_as(document.value, ScriptFile, document.where)
    named = [(config.name or f"rule {index}", config) for index, config in enumerate(file.rules, 1)]
    rules = tuple(Rule(name, config, config.behaviour or file.behaviour, _outcome(config)) for name, config in named)
    return Script(file.name or Path(path).stem, str(path), rules, file.server)


def _outcome(config: RuleConfig) -> tuple[Said, ...] | ProblemError:
    calls = tuple(FunctionCall(call.name, call.arguments) for call in config.calls or ())
    if config.refusal is not None:
        return (Said(thought=config.reasoning, refusal=config.refusal),)
    if config.content_filter is not None:
        return _filtered(config.content_filter)
    if config.status is not None:
        return _failing(config.status, config)
    if config.reject is not None:  # the reply of a service with a model that does not take a parameter
        name, kind = _rejected(config.reject)
        of_type = f" of type '{kind}'" if kind is not None else ""
        return ProblemError(400, f"Invalid parameter: '{name}'{of_type} is not supported with this model.", param=name)
    answers = config.answers or [config.answer]
    if answers == [None]:
        return (Said(calls=calls, thought=config.reasoning),)
    cut = config.truncate_at
    texts = [_answer_text(config, answer)[:cut] for answer in answers]
    return tuple(Said(text, calls, config.reasoning, finish_reason=None if cut is None else "length") for text in texts)


def _answer_text(config: RuleConfig, value: JSON) -> str:
    """An answer as the model would write it: texts unchanged, all other values as JSON."""
    text = value if isinstance(value, str) else dumps(value).decode()
    if config.fenced:
        text = f"```json\n{text}\n```"
    return text if config.around is None else config.around.replace("{}", text, 1)


def _filtered(what: Literal["prompt", "answer"]) -> tuple[Said, ...] | ProblemError:
    """Azure OpenAI's way: a prompt that it declines is a 400, an answer that it declines a finish reason."""
    if what == "answer":
        return (Said(finish_reason="content_filter"),)
    verdicts: dict[str, JSON] = {name: {"filtered": False, "severity": "safe"} for name in _CATEGORIES}
    verdicts["violence"] = {"filtered": True, "severity": "high"}
    inner: dict[str, JSON] = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": verdicts}
    return ScriptedProblemError(400, _FILTERED_PROMPT, None, "content_filter", "prompt", inner=inner)


def _failing(status: int, config: RuleConfig) -> ProblemError:
    kind, code = "server_error" if status >= 500 else "invalid_request_error", None
    if status == 429:
        kind, code = "requests", "rate_limit_exceeded"
    return ScriptedProblemError(
        status, config.message or f"a scripted {status}", kind, code, retry_after_s=config.retry_after
    )


def _rejected(reject: str | Mapping[str, str]) -> tuple[str, str | None]:
    """The parameter's name, and its type where one is named."""
    return (reject, None) if isinstance(reject, str) else next(iter(reject.items()))


def _listed(texts: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else texts or ()


class ScriptSource(ChatSource):
    """Answers chats by the rules of a script; every reply is marked as simulated.

    A request that is repeated under its idempotency key never comes here, so that it counts once.
    """

    def __init__(self, script: Script) -> None:
        self.name = script.name
        self.script = script
        self._counts = [0] * len(script.rules)
        self._unmatched = 0
        self._turns: Counter[tuple[str, bytes]] = Counter()

    async def complete(self, request: ChatRequest) -> Completion:
        """The output of the first rule that holds."""
        server = self.script.server
        request = server.seen(request)
        question = _question(request)
        counted = replace(request, tools=None) if server.tools == "uncounted" else request
        asked = len(_question(counted).request) // TOKEN + 1
        server.check_length(asked)
        rule = self._rule(question)
        if isinstance(rule.outcome, ProblemError):
            raise rule.outcome
        rounds, turn = divmod(self._turn(rule, request.messages), len(rule.outcome))
        completion = rule.behaviour.served(rule.outcome[turn], rounds)
        told = rule.config.usage if server.usage else UsageConfig()
        if told is not None:
            return replace(completion, usage=Usage(told.input_tokens, told.output_tokens))
        return replace(completion, usage=Usage(asked, completion.usage.output_tokens))

    def health(self) -> dict[str, JSON]:
        counts = zip(self.script.rules, self._counts, strict=True)
        return {"rules": {rule.name: count for rule, count in counts}, "unmatched": self._unmatched}

    def _rule(self, question: Question) -> Rule:
        for index, rule in enumerate(self.script.rules):
            times = rule.config.times
            if (times is None or self._counts[index] < times) and rule.holds(question):
                self._counts[index] += 1
                return rule
        self._unmatched += 1
        asked = " ".join(question.user[: 4 * _SHOWN].split())
        shown = asked if len(asked) <= _SHOWN else f"{asked[:_SHOWN]}…"
        raise NoAnswerError(f"no rule of {self.script.file} holds for this request; its user says: {shown!r}")

    def _turn(self, rule: Rule, messages: Sequence[Mapping[str, JSON]]) -> int:
        """How often this rule has answered these messages before."""
        key = (rule.name, content_key(messages))
        self._turns[key] += 1
        return self._turns[key] - 1


def _question(request: ChatRequest) -> Question:
    messages = request.messages
    given: dict[str, JSON] = {name: value for name, value in request.parameters.items() if value is not None}
    if request.tools is not None:
        given["tools"] = [dict(tool) for tool in request.tools]
    users = [message for message in messages if message.get("role") == "user"]
    systems = [_text_of(message) for message in messages if message.get("role") in ("system", "developer")]
    everything = [*map(_text_of, messages), *(dumps([name, value]).decode() for name, value in given.items())]
    user = _text_of(users[-1]) if users else ""
    return Question(user, "\n".join(systems), "\n".join(everything), messages[-1].get("role"), given)


def _text_of(message: Mapping[str, JSON]) -> str:
    """A message's texts, and its calls as JSON."""
    texts = [part for part in content_parts(message) if isinstance(part, str)]
    calls = message.get("tool_calls")
    return "\n".join([*texts, *([dumps(calls).decode()] if calls else [])])


class StreamingServer(ModelServer):
    """A model's server that also sends streams, unlike `tunecheck serve`, and the headers of its configuration."""

    def __init__(self, source: ChatSource, config: ServerConfig | None = None) -> None:
        super().__init__(source)
        self._config = config or ServerConfig()

    async def chat(self, request: web.Request) -> web.Response:
        """Answer with a chat completion or with a stream of it."""
        asked = read_object(await request.read())
        streamed, options = asked.pop("stream", None) is True, asked.pop("stream_options", None)
        if self._config.streaming == ("refused" if streamed else "only"):
            only = "This model only supports streaming: set stream to true."
            text = "Streaming is not supported." if streamed else only
            raise ProblemError(400, text, code="unsupported_value", param="stream")

        question = chat_question(dumps(asked))
        completion, headers = await self.completion(request, question)
        headers = {**headers, **self._config.headers}
        body = chat_completion(completion, model=question.model or self.name, request_id=headers["x-request-id"])
        if not streamed:
            return json_reply(body, headers=headers)
        events = [dumps(piece) for piece in _pieces(body, with_usage=bool(options))]
        stream = b"".join(b"data: " + event + b"\n\n" for event in [*events, b"[DONE]"])
        return web.Response(body=stream, headers={**headers, "Content-Type": "text/event-stream"})

    async def score(self, request: web.Request) -> web.Response:
        reply = await super().score(request)
        reply.headers.update(self._config.headers)
        return reply


class ScriptedServer(StreamingServer):
    """The server of a script, with what its `server` section says of streams and headers."""

    def __init__(self, source: ScriptSource) -> None:
        super().__init__(source, source.script.server)
        self._scripted = source

    def health(self) -> dict[str, JSON]:
        return {**super().health(), **self._scripted.health()}


def _pieces(body: dict[str, Any], *, with_usage: bool) -> Iterator[dict[str, Any]]:
    """A chat completion as the pieces of a stream: each field, words of the text, each call's name and arguments."""
    choice, usage = body["choices"][0], body["usage"]
    message = choice["message"]
    text, calls = message.pop("content"), message.pop("tool_calls", [])
    deltas = [{"role": message.pop("role"), "content": None if text is None else ""}]
    deltas += [{name: value} for name, value in message.items()]
    deltas += [{"content": word} for word in re.findall(r"\s*\S+|\s+", text or "")]
    for index, call in enumerate(calls):
        function, arguments = {**call["function"], "arguments": ""}, call["function"].get("arguments")
        deltas.append({"tool_calls": [{"index": index, **call, "function": function}]})
        parts = re.findall(r"(?s).{1,24}", arguments) if isinstance(arguments, str) else []
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in parts]

    body = {**body, "object": "chat.completion.chunk", "usage": None}
    for delta in deltas:
        yield {**body, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**body, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    if with_usage:
        yield {**body, "choices": [], "usage": usage}
