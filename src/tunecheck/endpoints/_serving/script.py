"""Scripted answers for `tunecheck serve --script`: a YAML file of rules, read and checked before the first request.

    rules:
      - when: {user: ["NYC", "New York City"]}      # all of these stand in the last user message
        answer: {difference: 1, reason: the same city}
      - status: 429                                 # no `when`: every request, and here the first two of them
        times: 2
        retry_after: 0.1
      - answer: {difference: 0, reason: not the same}
        fenced: true

The first rule that holds for a request answers it. Texts are looked for as they stand: there are no patterns that could
take long.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps
from tunecheck._messages import did_you_mean
from tunecheck._yaml import Document, read
from tunecheck.endpoints._base import Completion, Usage
from tunecheck.endpoints._definition import Section
from tunecheck.endpoints._recorded import NoAnswerError, content_key
from tunecheck.endpoints._serving.wire import Problem, ProblemError, Refusal

MAX_WAIT_S = 3_600
_MOST = 2**53

_ACTIONS = ("answer", "answers", "refusal", "content_filter", "status", "reject")
_OF_TEXTS = ("answer", "answers")
_BELONGS: Mapping[str, tuple[str, ...]] = {
    "fenced": _OF_TEXTS,
    "around": _OF_TEXTS,
    "truncate_at": _OF_TEXTS,
    "usage": (*_OF_TEXTS, "refusal", "content_filter"),
    "retry_after": ("status",),
    "message": ("status", "reject"),
}
"""Which key goes with which actions."""

_FILTERED_PROMPT = (
    "The response was filtered due to the prompt triggering the service's content management policy. "
    "Please modify your prompt and retry."
)
_CATEGORIES = ("hate", "self_harm", "sexual", "violence")

Outcome: TypeAlias = "tuple[Completion, ...] | Problem"
"""Completions that are given in turn, or an error reply."""


@dataclass(frozen=True, slots=True)
class Question:
    """The texts of one request that rules look into. `parameters` are those beside messages; `tools` counts as one."""

    user: str
    system: str
    request: str
    parameters: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Words:
    """Texts that must all stand somewhere, of which one must, of which none may."""

    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()

    def hold(self, text: str) -> bool:
        """Whether the text is as they say."""
        return (
            all(word in text for word in self.all)
            and (not self.any or any(word in text for word in self.any))
            and not any(word in text for word in self.none)
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request must be. `rejected` is a parameter it has, with its `type` where one is named."""

    user: Words = Words()
    system: Words = Words()
    request: Words = Words()
    response_format: bool | None = None
    rejected: tuple[str, str | None] | None = None

    def holds(self, question: Question) -> bool:
        """Whether the request is that."""
        if self.response_format is not None and ("response_format" in question.parameters) != self.response_format:
            return False
        return (
            self.user.hold(question.user)
            and self.system.hold(question.system)
            and self.request.hold(question.request)
            and (self.rejected is None or _has(question.parameters, *self.rejected))
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: which requests (`times`: only so many of them), and what they get after `latency_ms`.

    `usage` None is reckoned from the lengths of question and answer.
    """

    name: str
    wanted: Wanted
    outcome: Outcome
    times: int | None = None
    latency_ms: float = 0.0
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """The rules of a file, in order. `name` is offered as the model's name, `file` is for people."""

    name: str
    file: str
    rules: tuple[Rule, ...]


def read_script(path: Path | str) -> Script:
    """The script in a YAML file.

    Raises:
        ConfigurationError: the file cannot be read, or a rule is wrong; names file, line and key.
    """
    document = read(path)
    if not isinstance(document.value, dict):
        raise ConfigurationError(f"{path}: a script is a mapping with `rules:`, a list")
    file = Section(document.value, document)
    name = file.maybe_text("name") or Path(path).stem
    entries = file.value("rules")
    file.finish()
    if not isinstance(entries, list) or not entries:
        raise file.error("rules", "must be a list of at least one rule")
    rules = tuple(_read_rules(entries, document))
    names = [rule.name for rule in rules]
    for index, rule_name in enumerate(names):
        if rule_name in names[:index]:
            raise ConfigurationError(f"{document.where('rules', index)}: name: a rule {rule_name!r} was there before")
    return Script(name, str(path), rules)


def _read_rules(entries: Sequence[JSON], document: Document) -> Iterator[Rule]:
    for index, entry in enumerate(entries):
        own = _part(document, entry, "rules", index)
        if not isinstance(entry, dict):
            raise ConfigurationError(f"{own.where()}: rule {index + 1} must be a mapping with `answer:` or the like")
        yield _read_rule(Section(entry, own), f"rule {index + 1}")


def _part(document: Document, value: JSON, *path: str | int) -> Document:
    """A part of a document as one of its own, its lines still those of the file."""
    within = len(path)
    lines = {at[within:]: line for at, line in document.lines.items() if at[:within] == path}
    return Document(document.name, value, lines)


def _read_rule(rule: Section, default_name: str) -> Rule:
    action = _action(rule)
    name = rule.maybe_text("name") or default_name
    wanted = _wanted(rule.section("when"), _rejected(rule) if action == "reject" else None)
    times = rule.integer("times", 1, least=1, most=_MOST) if rule.has("times") else None
    latency_ms = rule.number("latency_ms", 0, above=-1e-9, most=MAX_WAIT_S * 1000)
    usage = _usage(rule) if rule.has("usage") else None
    outcome = _outcome(rule, action, wanted)
    rule.finish()
    return Rule(name, wanted, outcome, times, latency_ms, usage)


def _action(rule: Section) -> str:
    found = [key for key in _ACTIONS if rule.has(key)]
    if not found:
        # A misspelt action is the likeliest cause: the unknown key says more than the missing one.
        for key in (*_BELONGS, "name", "when", "times", "latency_ms"):
            rule.has(key)
        rule.finish()
        raise rule.error(None, f"a rule needs one of {', '.join(_ACTIONS)}")
    if len(found) > 1:
        raise rule.error(found[1], f"a rule does one thing, and this one has {found[0]} already")
    for key, actions in _BELONGS.items():
        if rule.has(key) and found[0] not in actions:
            raise rule.error(key, f"goes with {' or '.join(actions)}, not with {found[0]}")
    return found[0]


def _outcome(rule: Section, action: str, wanted: Wanted) -> Outcome:
    match action:
        case "answer" | "answers":
            return _completions(rule, action)
        case "refusal":
            return (Refusal(finish_reason="stop", simulated=True, refusal=rule.text("refusal")),)
        case "content_filter":
            return _filtered(rule)
        case "status":
            return _failing(rule)
        case _:
            return _rejecting(rule, wanted)


def _wanted(when: Section, rejected: tuple[str, str | None] | None) -> Wanted:
    found = {key: _words(when, key) for key in ("user", "system", "request")}
    response_format = when.flag("response_format", False) if when.has("response_format") else None
    return Wanted(**found, response_format=response_format, rejected=rejected)


def _words(when: Section, key: str) -> Words:
    value = when.value(key)
    if value is None:
        return Words()
    if not isinstance(value, dict):
        return Words(all=_texts(when, key, value))
    for name in value:
        if name not in ("all", "any", "none"):
            raise when.error(key, f"{name!r} is none of all, any, none{did_you_mean(name, ('all', 'any', 'none'))}")
    return Words(**{name: _texts(when, key, texts) for name, texts in value.items()})


def _texts(section: Section, key: str, value: JSON) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    texts = tuple(item for item in items if isinstance(item, str) and item)
    if not texts or len(texts) != len(items):
        raise section.error(key, "must be a text or a list of texts (quote numbers and true or false)")
    return texts


def _completions(rule: Section, action: str) -> tuple[Completion, ...]:
    value = rule.value(action)
    if action == "answers" and (not isinstance(value, list) or not value or None in value):
        raise rule.error(action, "must be a list of answers, which are given in turn")
    texts = [_answer_text(rule, one) for one in (value if action == "answers" and isinstance(value, list) else [value])]
    cut = rule.integer("truncate_at", 0, least=0, most=_MOST) if rule.has("truncate_at") else None
    if cut is None:
        return tuple(Completion(text, finish_reason="stop", simulated=True) for text in texts)
    shortest = min(map(len, texts))
    if cut >= shortest:
        raise rule.error("truncate_at", f"must be less than {shortest}, the length of the answer")
    return tuple(Completion(text[:cut], finish_reason="length", simulated=True) for text in texts)


def _answer_text(rule: Section, value: JSON) -> str:
    """An answer as the model would write it: texts as they stand, everything else as JSON."""
    text = value if isinstance(value, str) else dumps(value).decode()
    if rule.flag("fenced", False):
        text = f"```json\n{text}\n```"
    around = rule.maybe_text("around")
    if around is None:
        return text
    before, mark, after = around.partition("{}")
    if not mark:
        raise rule.error("around", "must hold {}, the place of the answer")
    return f"{before}{text}{after}"


def _filtered(rule: Section) -> Outcome:
    """As Azure OpenAI does it: a prompt that it declines is a 400, an answer that it declines a finish reason."""
    value = rule.value("content_filter")
    if value not in (True, "prompt", "answer"):
        raise rule.error("content_filter", "must be prompt (or true) or answer")
    if value == "answer":
        return (Completion(None, finish_reason="content_filter", simulated=True),)
    verdicts: dict[str, JSON] = {name: {"filtered": False, "severity": "safe"} for name in _CATEGORIES}
    verdicts["violence"] = {"filtered": True, "severity": "high"}
    inner: dict[str, JSON] = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": verdicts}
    return Problem(400, _FILTERED_PROMPT, None, "content_filter", "prompt", inner=inner)


def _failing(rule: Section) -> Problem:
    status = rule.integer("status", 500, least=400, most=599)
    retry_after = rule.maybe_number("retry_after", above=-1e-9, most=MAX_WAIT_S)
    message = rule.maybe_text("message")
    if status == 429:
        text = message or "rate limit reached (scripted)"
        return Problem(status, text, "requests", "rate_limit_exceeded", retry_after_s=retry_after)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return Problem(status, message or f"a scripted {status}", kind, retry_after_s=retry_after)


def _rejected(rule: Section) -> tuple[str, str | None]:
    value = rule.value("reject")
    if isinstance(value, str) and value:
        return value, None
    if isinstance(value, dict) and len(value) == 1:
        ((name, kind),) = value.items()
        if isinstance(kind, str):
            return name, kind
    raise rule.error("reject", "must be a parameter's name, or its name and type: {response_format: json_schema}")


def _rejecting(rule: Section, wanted: Wanted) -> Problem:
    """The reply of a service whose model does not take a parameter."""
    assert wanted.rejected is not None
    name, kind = wanted.rejected
    of_type = f" of type '{kind}'" if kind is not None else ""
    text = f"Invalid parameter: '{name}'{of_type} is not supported with this model."
    return Problem(400, rule.maybe_text("message") or text, param=name)


def _usage(rule: Section) -> Usage:
    """`{input_tokens: …, output_tokens: …}`; a count that is left out is not told."""
    value = rule.value("usage")
    if not isinstance(value, dict):
        raise rule.error("usage", "must be {input_tokens: …, output_tokens: …}, or {} to tell none")
    counts = rule.section("usage")
    found = {
        key: counts.integer(key, 0, least=0, most=_MOST) if counts.has(key) else None
        for key in ("input_tokens", "output_tokens")
    }
    return Usage(**found)


def _has(parameters: Mapping[str, JSON], name: str, kind: str | None) -> bool:
    value = parameters.get(name)
    if value is None:
        return False
    return kind is None or (isinstance(value, dict) and value.get("type") == kind)


MAX_TURNS = 10_000
"""Questions whose turn is remembered, for rules with several answers; the oldest give way."""

_SHOWN = 80


class ScriptSource:
    """Answers chats by the rules of a script; every reply is marked as simulated.

    A request that is repeated under its idempotency key never comes here, so that it counts once.
    """

    def __init__(self, script: Script) -> None:
        self.name = script.name
        self._script = script
        self._counts = [0] * len(script.rules)
        self._unmatched = 0
        self._turns: OrderedDict[tuple[str, bytes], int] = OrderedDict()

    @classmethod
    def read(cls, path: Path | str) -> ScriptSource:
        """The source of a script's file.

        Raises:
            ConfigurationError: the script cannot be used; names file, line and key.
        """
        return cls(read_script(path))

    async def answer(
        self,
        messages: Sequence[Mapping[str, JSON]],
        tools: Sequence[Mapping[str, JSON]] | None,
        parameters: Mapping[str, JSON],
    ) -> Completion:
        """What the first rule that holds says.

        Raises:
            NoAnswerError: no rule holds for this request.
            ProblemError: the rule answers with an error.
        """
        question = _question(messages, tools, parameters)
        rule = self._rule(question)
        if rule.latency_ms:
            await asyncio.sleep(rule.latency_ms / 1000)
        if isinstance(rule.outcome, Problem):
            raise ProblemError(rule.outcome)
        completion = rule.outcome[self._turn(rule, messages) % len(rule.outcome)]
        return replace(completion, usage=rule.usage or _reckoned(question, completion))

    async def close(self) -> None:
        """Nothing is held open."""

    def health(self) -> dict[str, JSON]:
        """How many requests each rule answered, and how many none did."""
        counts = zip(self._script.rules, self._counts, strict=True)
        return {"rules": {rule.name: count for rule, count in counts}, "unmatched": self._unmatched}

    def _rule(self, question: Question) -> Rule:
        for index, rule in enumerate(self._script.rules):
            left = rule.times is None or self._counts[index] < rule.times
            if left and rule.wanted.holds(question):
                self._counts[index] += 1
                return rule
        self._unmatched += 1
        asked = " ".join(question.user[: 4 * _SHOWN].split())
        shown = asked if len(asked) <= _SHOWN else f"{asked[:_SHOWN]}…"
        raise NoAnswerError(f"no rule of {self._script.file} holds for this request; its user says: {shown!r}")

    def _turn(self, rule: Rule, messages: Sequence[Mapping[str, JSON]]) -> int:
        """How often this rule has answered these messages before."""
        assert isinstance(rule.outcome, tuple)
        if len(rule.outcome) == 1:
            return 0
        key = (rule.name, content_key(messages))
        turn = self._turns.pop(key, 0)
        self._turns[key] = turn + 1
        if len(self._turns) > MAX_TURNS:
            self._turns.popitem(last=False)
        return turn


def _question(
    messages: Sequence[Mapping[str, JSON]],
    tools: Sequence[Mapping[str, JSON]] | None,
    parameters: Mapping[str, JSON],
) -> Question:
    given: dict[str, JSON] = {name: value for name, value in parameters.items() if value is not None}
    if tools is not None:
        given["tools"] = [dict(tool) for tool in tools]
    users = [message for message in messages if message.get("role") == "user"]
    systems = [_said(message) for message in messages if message.get("role") in ("system", "developer")]
    everything = [*map(_said, messages), *(dumps([name, value]).decode() for name, value in given.items())]
    return Question(_said(users[-1]) if users else "", "\n".join(systems), "\n".join(everything), given)


def _said(message: Mapping[str, JSON]) -> str:
    """A message's texts, and its calls as JSON."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    calls = message.get("tool_calls")
    return "\n".join([*(text for text in texts if isinstance(text, str)), *([dumps(calls).decode()] if calls else [])])


def _reckoned(question: Question, completion: Completion) -> Usage:
    """Tokens as a quarter of the characters, the usual rule of thumb for English."""
    return Usage(len(question.request) // 4 + 1, len(completion.text or "") // 4 + 1)
