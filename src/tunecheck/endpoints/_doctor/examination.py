"""The doctor: sends all questions to an endpoint, within its limits, and runs all checks on the answers.

1. The questions `untooled` and `call` (with a tool) come first.
2. If `untooled` failed, the only finding is that error. If `call` failed, further questions with tools are left out.
3. All other questions are sent at once, and the doctor finds the program that serves the model.
4. The checks examine the answers. Their suggested changes are merged (`_changes`).
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import asdict

from tunecheck._errors import EndpointError, StopRunError
from tunecheck._json import JSON, dumps, value_of
from tunecheck._messages import clean
from tunecheck.endpoints._answers import path_of_text
from tunecheck.endpoints._api_facts import remedy_for
from tunecheck.endpoints._base import ChatRequest, Endpoint
from tunecheck.endpoints._doctor import evidence
from tunecheck.endpoints._doctor.checks import CHECKS
from tunecheck.endpoints._http_endpoint import HttpEndpoint
from tunecheck.endpoints._target import ask

_AT_ONCE = 8
"""Number of questions at once for an endpoint without a limit of its own."""


class Examination(msgspec.Struct, frozen=True):
    """What the answers of one endpoint show.

    Endpoints that only answer rows of data or run whole conversations get one question and have no findings.
    """

    endpoint: str
    kind: str
    simulated: bool
    answer: evidence.DoctorAnswer
    """The answer to the question with a tool."""
    found_out: Sequence[str]
    """Sentences about refused parameters, and about a model that the service does not offer."""
    serving: evidence.Serving = msgspec.field(default_factory=evidence.Serving)
    findings: Mapping[str, evidence.Diagnosis] = msgspec.field(default_factory=dict)
    """The finding of each check, by the check's name."""
    changes: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    """Keys to set in the definition, merged from all findings."""

    @property
    def answered(self) -> bool:
        """True if the endpoint answered the question with a tool."""
        return self.answer.error is None

    @property
    def ok(self) -> bool:
        """True if the endpoint answered and no check failed."""
        return self.answered and not self.counts["fail"]

    @property
    def counts(self) -> Mapping[evidence.Status, int]:
        return Counter(finding.status for finding in self.findings.values())

    def as_json(self) -> dict[str, JSON]:
        """Return the examination for `--json`: counts by status, the checks, and the keys to change."""
        return {
            "endpoint": self.endpoint,
            "kind": self.kind,
            "simulated": self.simulated,
            "server": asdict(self.serving),
            **{status: self.counts[status] for status in ("pass", "warn", "fail", "skip")},
            "checks": [{"check": name, **asdict(finding)} for name, finding in self.findings.items()],
            "changes": dict(self.changes),
        }

    def lines(self) -> list[str]:
        """Return the lines for people about the answer to the question with a tool."""
        head, error = f"{self.endpoint} ({self.kind})", self.answer.error
        if error is not None:
            kind = "" if isinstance(error, EndpointError) else f"{type(error).__name__}: "
            return [f"{head}: failed", f"  {kind}{error}", f"  {evidence.advice_on(error)}"]

        return [f"{head}: answered", *(f"  {name:<12}{text}" for name, text in self._facts() if text)]

    def _facts(self) -> list[tuple[str, str]]:
        """Return the lines as pairs of a label and a text; lines with an empty text are not shown."""
        completion = self.answer.completion

        counts = (completion.usage.input_tokens, completion.usage.output_tokens)
        asked, answered = ("unknown" if count is None else str(count) for count in counts)
        times = (("latency", completion.latency_ms), ("first token", completion.first_token_ms))
        hint = "the answer is a JSON object; if it contains the model's text, set `response:` to the text's path"
        return [
            ("server", str(self.serving)),
            ("reasoning", clean(completion.reasoning or "", 300)),
            ("text", clean(self.answer.text, 300)),
            *(("call", clean(dumps(dict(call)).decode(), 300)) for call in completion.tool_calls),
            *((name, "" if ms is None else f"{ms:.0f} ms") for name, ms in times),
            ("tokens", f"{asked} in, {answered} out"),
            ("finished", completion.finish_reason or ""),
            ("request id", completion.request_id or ""),
            ("note", "simulated: no model answered" if completion.simulated else ""),
            *(("note", sentence) for sentence in self.found_out),
            ("hint", hint if not completion.tool_calls and self.answer.text.startswith("{") else ""),
        ]


async def check_endpoint(endpoint: Endpoint) -> Examination:
    """Send the doctor's question with a tool to an endpoint and close the endpoint. An error is part of the answer."""
    try:
        answer = await _answer(endpoint, evidence.QUESTIONS["call"], asyncio.Semaphore())
    finally:
        await endpoint.close()
    return Examination(endpoint.name, endpoint.kind, endpoint.simulated, answer, [*endpoint.facts.sentences()])


async def examine(endpoint: Endpoint, definition: Mapping[str, JSON]) -> Examination:
    """Send all questions to an endpoint, close the endpoint, and return the findings.

    `definition` is that of the endpoint; the suggested changes are for it.

    A replayed or simulated endpoint, or one that only runs conversations, gets one question and no findings.
    """
    if endpoint.kind in ("replay", "simulated") or not endpoint.answers_single_questions:
        return await check_endpoint(endpoint)

    try:
        answers = await _ask_questions(endpoint, definition)
    finally:
        await endpoint.close()

    simulated = any(answer.completion.simulated for answer in answers.by_question.values())
    findings, serving = _findings(answers), answers.serving
    changes = _changes(findings.values(), answers.parameters_taken)

    offered = endpoint.offer_text(serving.models) if isinstance(endpoint, HttpEndpoint) else ""
    found_out = [*endpoint.facts.sentences()]
    if offered:
        found_out.append(f"the model is not in the server's list: {offered}")

    return Examination(endpoint.name, endpoint.kind, simulated, answers["call"], found_out, serving, findings, changes)


async def _ask_questions(endpoint: Endpoint, definition: Mapping[str, JSON]) -> evidence.Answers:
    """Ask all questions, and find the program that serves the model.

    The questions `untooled` and `call` come first. If `untooled` fails, no others are asked. If `call` fails, or the
    endpoint's requests contain no tools, no others with tools are asked. Only chats are asked for a stream.
    """
    if isinstance(endpoint, HttpEndpoint):
        endpoint.fail_fast()

    slots = asyncio.Semaphore(endpoint.concurrency or _AT_ONCE)

    async def answers_to(names: Sequence[str]) -> dict[str, evidence.DoctorAnswer]:
        answers = await asyncio.gather(*(_answer(endpoint, evidence.QUESTIONS[name], slots) for name in names))
        return dict(zip(names, answers, strict=True))

    by_question = await answers_to(("untooled", "call"))
    serving = evidence.Serving()

    if by_question["untooled"].error is None:
        serving = await evidence.find_serving(endpoint) if isinstance(endpoint, HttpEndpoint) else serving
        with_tools = not endpoint.tools_note and by_question["call"].error is None

        # Without an answer to `call`, questions with tools would only fail in the same way. Only chats can be streamed.
        names = [name for name, question in evidence.QUESTIONS.items() if with_tools or not question.tools]
        skipped = {*by_question} if endpoint.is_chat else {*by_question, "streamed"}
        by_question |= await answers_to([name for name in names if name not in skipped])
    return evidence.Answers(by_question, endpoint, definition, serving)


def _findings(answers: evidence.Answers) -> dict[str, evidence.Diagnosis]:
    """Return the finding of every check, by the check's name.

    If the question `untooled` got no answer, or an answer inside other JSON, return only a finding about that.
    """
    first, definition = answers["untooled"], answers.definition
    is_whole_reply = definition.get("kind") == "azure_ml" and not definition.get("response")

    if first.error is not None:
        advice, change = evidence.advice_on(first.error), remedy_for(first.error)
        verdict = evidence.Diagnosis("fail", clean(str(first.error), 300), advice, change)
    elif is_whole_reply and (path := path_of_text(value_of(first.raw_text))):
        problem, advice = f"the answer's text is inside other JSON: {first.shown()}", "set `response` to its path"
        verdict = evidence.Diagnosis("fail", problem, f"{advice}, and check again", {"response": path})
    else:
        return {check.name: check.verdict(answers) for check in CHECKS}
    return {"it answers": verdict}


def _changes(findings: Iterable[evidence.Diagnosis], sent_parameters: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the changes of all findings, merged by key.

    Later findings win, but a parameter that a finding leaves as it was sent does not override another finding's change.
    """
    changes: dict[str, JSON] = {}
    for finding in findings:
        for key, value in finding.change.items():
            # Several findings may change parameters: each adds only those that it changes.
            before = changes.get(key)
            if isinstance(before, dict) and isinstance(value, dict):
                value = before | {name: value[name] for name in value if value[name] != sent_parameters.get(name)}
            changes[key] = value
    return changes


async def _answer(endpoint: Endpoint, question: ChatRequest, slots: asyncio.Semaphore) -> evidence.DoctorAnswer:
    """Ask one question as soon as one of the `slots` is free. An error becomes part of the answer."""
    async with slots:
        try:
            return evidence.DoctorAnswer(question, await ask(endpoint, question))
        except (EndpointError, StopRunError, ValueError) as error:
            return evidence.DoctorAnswer(question, error=error)
