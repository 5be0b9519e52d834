"""A model that answers by a YAML file of rules: the first rule that holds for a request answers it.

Texts are searched for exactly: there are no patterns that could take long.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from aiohttp import web
from tests.scripted_behaviour import TOKEN, Behaviour, Said, ServerConfig

from tunecheck import ConfigurationError, NoAnswerError
from tunecheck.calls import FunctionCall
from tunecheck.endpoints import ChatRequest, Completion, Place, Text, Usage, content_key, content_parts
from tunecheck.plugins import JSON, Written, dumps, read_as, read_yaml
from tunecheck_serve import Asked, ChatSource, ModelServer, Problem, ProblemError

MAX_TURNS = 10_000
"""Questions whose turn is remembered, for rules with several answers; the oldest are dropped."""

MAX_WAIT_S = 3_600
_SHOWN = 80

_ACTIONS = ("answer", "answers", "calls", "refusal", "content_filter", "status", "reject")
_OF_TEXTS = ("answer", "answers")
_SAID = (*_OF_TEXTS, "calls", "refusal")
_GOES_WITH: Mapping[str, tuple[str, ...]] = {
    "fenced": _OF_TEXTS,
    "around": _OF_TEXTS,
    "truncate_at": _OF_TEXTS,
    "reasoning": _SAID,
    "behaviour": _SAID,
    "usage": (*_SAID, "content_filter"),
    "retry_after": ("status",),
    "message": ("status", "reject"),
    "code": ("status", "reject"),
}
"""Which key goes with which actions."""

_FILTERED_PROMPT = (
    "The response was filtered due to the prompt triggering the service's content management policy. "
    "Please modify your prompt and retry."
)
_CATEGORIES = ("hate", "self_harm", "sexual", "violence")


@dataclass(frozen=True, slots=True)
class ScriptedProblem(Problem):
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
            return Problem.headers(self)
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
    response_format: bool | None = None

    def holds(self, question: Question) -> bool:
        given = (("tools", self.tools), ("response_format", self.response_format))
        if any(wanted is not None and (name in question.parameters) != wanted for name, wanted in given):
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
    latency_ms: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S * 1000)] = 0.0
    answer: Any = None
    answers: Annotated[list[Any], msgspec.Meta(min_length=1)] | None = None
    calls: Annotated[list[CallConfig], msgspec.Meta(min_length=1)] | None = None
    reasoning: Text | None = None
    behaviour: Behaviour | None = None
    refusal: Text | None = None
    content_filter: bool | Literal["prompt", "answer"] | None = None
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    reject: Text | Annotated[dict[Text, Text], msgspec.Meta(min_length=1, max_length=1)] | None = None
    fenced: bool | None = None
    around: Text | None = None
    truncate_at: Count | None = None
    usage: UsageConfig | None = None
    retry_after: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] | None = None
    message: Text | None = None
    code: Text | None = None


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
    outcome: tuple[Said, ...] | Problem

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
    rules: dict[str, Rule] = {}
    for index, config in enumerate(file.rules):
        name = config.name or f"rule {index + 1}"
        place = Place(document, ("rules", index))
        if name in rules:
            raise place.at("name").error(f"there is already a rule {name!r}")
        if config.behaviour is not None:
            config.behaviour.check(place.at("behaviour"))
        rules[name] = Rule(name, config, config.behaviour or file.behaviour, _outcome(config, place))
    file.behaviour.check(Place(document, ("behaviour",)))
    return Script(file.name or Path(path).stem, str(path), tuple(rules.values()), file.server)


def _outcome(config: RuleConfig, place: Place) -> tuple[Said, ...] | Problem:
    match _action(config, place):
        case "answer" | "answers":
            return _texts(config, place)
        case "calls":
            return (Said(calls=_calls(config), thought=config.reasoning),)
        case "refusal":
            return (Said(thought=config.reasoning, refusal=config.refusal),)
        case "content_filter":
            return _filtered(config, place)
        case "status":
            return _failing(config)
        case _:  # reject: the reply of a service with a model that does not take a parameter
            name, kind = _rejected(config.reject or "")
            of_type = f" of type '{kind}'" if kind is not None else ""
            text = f"Invalid parameter: '{name}'{of_type} is not supported with this model."
            return Problem(400, config.message or text, code=config.code, param=name)


def _action(config: RuleConfig, place: Place) -> str:
    actions = [key for key in _ACTIONS if getattr(config, key) is not None]
    if not actions:
        raise place.error(f"a rule needs one of {', '.join(_ACTIONS)}")
    if len(actions) > 1 and actions != ["answer", "calls"]:
        raise place.at(actions[1]).error(f"a rule does one thing, and this one has {actions[0]} already")
    for key, goes_with in _GOES_WITH.items():
        if getattr(config, key) is not None and actions[0] not in goes_with:
            raise place.at(key).error(f"goes with {' or '.join(goes_with)}, not with {actions[0]}")
    return actions[0]


def _texts(config: RuleConfig, place: Place) -> tuple[Said, ...]:
    answers = [config.answer] if config.answers is None else config.answers
    if None in answers:
        raise place.at("answers").error("must be a list of answers, which are given in turn")
    texts = [_answer_text(config, answer, place) for answer in answers]
    cut, shortest = config.truncate_at, min(map(len, texts))
    if cut is not None and cut >= shortest:
        raise place.at("truncate_at").error(f"must be less than {shortest}, the length of the answer")
    end = None if cut is None else "length"
    return tuple(Said(text[:cut], _calls(config), config.reasoning, finish_reason=end) for text in texts)


def _calls(config: RuleConfig) -> tuple[FunctionCall, ...]:
    return tuple(FunctionCall(call.name, call.arguments) for call in config.calls or ())


def _answer_text(config: RuleConfig, value: JSON, place: Place) -> str:
    """An answer as the model would write it: texts unchanged, all other values as JSON."""
    text = value if isinstance(value, str) else dumps(value).decode()
    if config.fenced:
        text = f"```json\n{text}\n```"
    if config.around is None:
        return text
    before, mark, after = config.around.partition("{}")
    if not mark:
        raise place.at("around").error("must hold {}, the place of the answer")
    return f"{before}{text}{after}"


def _filtered(config: RuleConfig, place: Place) -> tuple[Said, ...] | Problem:
    """Azure OpenAI's way: a prompt that it declines is a 400, an answer that it declines a finish reason."""
    if config.content_filter is False:
        raise place.at("content_filter").error("must be prompt (or true) or answer")
    if config.content_filter == "answer":
        return (Said(finish_reason="content_filter"),)
    verdicts: dict[str, JSON] = {name: {"filtered": False, "severity": "safe"} for name in _CATEGORIES}
    verdicts["violence"] = {"filtered": True, "severity": "high"}
    inner: dict[str, JSON] = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": verdicts}
    return ScriptedProblem(400, _FILTERED_PROMPT, None, "content_filter", "prompt", inner=inner)


def _failing(config: RuleConfig) -> Problem:
    status = config.status or 500
    if status == 429:
        text = config.message or "rate limit reached (scripted)"
        code = config.code or "rate_limit_exceeded"
        return ScriptedProblem(status, text, "requests", code, retry_after_s=config.retry_after)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return ScriptedProblem(
        status, config.message or f"a scripted {status}", kind, config.code, retry_after_s=config.retry_after
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
        self._turns: OrderedDict[tuple[str, bytes], int] = OrderedDict()

    async def answer(self, request: ChatRequest) -> Completion:
        """The output of the first rule that holds."""
        server = self.script.server
        request = server.seen(request)
        question = _question(request)
        asked = len(question.request) // TOKEN + 1
        server.check_length(asked)
        rule = self._rule(question)
        if rule.config.latency_ms:
            await asyncio.sleep(rule.config.latency_ms / 1000)
        if isinstance(rule.outcome, Problem):
            raise ProblemError(rule.outcome)
        rounds, turn = divmod(self._turn(rule, request.messages), len(rule.outcome))
        completion = rule.behaviour.served(rule.outcome[turn], rounds)
        told = rule.config.usage if server.usage else UsageConfig()
        if told is not None:
            return replace(completion, usage=Usage(told.input_tokens, told.output_tokens))
        return replace(completion, usage=replace(completion.usage, input_tokens=asked))

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
        assert isinstance(rule.outcome, tuple)
        if len(rule.outcome) == 1 and not rule.behaviour.varies:
            return 0
        key = (rule.name, content_key(messages))
        turn = self._turns.pop(key, 0)
        self._turns[key] = turn + 1
        if len(self._turns) > MAX_TURNS:
            self._turns.popitem(last=False)
        return turn


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


class ScriptedServer(ModelServer):
    """The server of a script, with what its `server` section says of streams and headers."""

    def __init__(self, source: ScriptSource) -> None:
        super().__init__(source)
        self._scripted = source

    def counts(self) -> dict[str, JSON]:
        return {**super().counts(), **self._scripted.health()}

    async def completion(self, request: web.Request, asked: Asked) -> tuple[Completion, dict[str, str]]:
        server = self._scripted.script.server
        if request.path != "/score" and server.streaming == ("refused" if asked.stream else "only"):
            only = "This model only supports streaming: set stream to true."
            text = "Streaming is not supported." if asked.stream else only
            raise ProblemError(Problem(400, text, code="unsupported_value", param="stream"))
        completion, headers = await super().completion(request, asked)
        return completion, {**headers, **server.headers}
