"""The doctor's checks. Each examines some answers and returns a diagnosis with a suggested change."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tunecheck._faults import cause_named, repeats_itself
from tunecheck._json import JSON, object_or_empty
from tunecheck._messages import clean
from tunecheck.endpoints._api_facts import REPEATING, remedy_for
from tunecheck.endpoints._base import output_limit
from tunecheck.endpoints._doctor import call_checks
from tunecheck.endpoints._doctor.answers import Answers, Diagnosis, DoctorAnswer, advice_on
from tunecheck.endpoints._doctor.call_checks import calls_as
from tunecheck.endpoints._doctor.questions import RIGHT


def _system_is_obeyed(answers: Answers) -> Diagnosis:
    """Check that an answer contains the word that the system prompt demands."""
    answer, word = answers["system"], RIGHT["system"].text
    if word.lower() in answer.text.lower():
        return Diagnosis("pass", answer.shown())
    evidence = f"{word} is not in the answer: {answer.shown()}"
    with_it, without = answer.completion.usage.input_tokens, answers["systemless"].completion.usage.input_tokens
    if with_it != without and without is not None:
        shown = f"the system prompt reaches the model ({with_it} prompt tokens with it, {without} without)"
        return Diagnosis("warn", f"{shown}, but the model does not follow it: {evidence}")
    advice = "the chat template may leave out the role system: put the system prompt into the first user message"
    return Diagnosis("fail", evidence, advice)


_HIDDEN_TOKENS = 40
"""An answer with this many more tokens than characters contains hidden reasoning."""


def _reasoning_is_kept_apart(answers: Answers) -> Diagnosis:
    """Check that reasoning is neither in the answers' text, nor instead of it, nor hidden."""
    leaked = next((answer for answer in answers.answered if answer.thinks_aloud), None)
    if leaked is not None:
        advice = f"{answers.serving.advice('reasoning')}; Tunecheck itself separates reasoning from answers"
        return Diagnosis("fail", f"an answer's text contains reasoning: {clean(leaked.raw_text, 120)}", advice)
    empty = next((answer for answer in answers.answered if answer.is_all_reasoning), None)
    if empty is not None:
        evidence = f"an answer consists of reasoning, and its text is empty: {clean(empty.completion.reasoning, 120)}"
        return Diagnosis("fail", evidence, "leave out the reasoning parser, or choose the parser of the model's family")
    reasoning = next((answer.completion.reasoning for answer in answers.answered if answer.completion.reasoning), None)
    if reasoning:
        return Diagnosis("pass", f"the service returns reasoning apart from the text: {clean(reasoning, 100)}")
    for answer in answers.answered:
        usage, length = answer.completion.usage, len(answer.text)
        tokens = usage.output_tokens or usage.reasoning_tokens or 0
        uncounted = not answer.calls and tokens > length + _HIDDEN_TOKENS
        if uncounted or usage.reasoning_tokens:
            advice = "if possible, let the service return reasoning: you pay for it, and it explains wrong answers"
            evidence = f"{tokens} output tokens for {length} characters: the service does not return its reasoning"
            return Diagnosis("warn", evidence, advice)
    return Diagnosis("pass", f"no reasoning in {len(answers.answered)} answers")


def _nothing_is_cut_off(answers: Answers) -> Diagnosis:
    """Check that no answer is cut off at a token limit, reported (finish reason) or not (counting ends early)."""
    cut = [answer for answer in answers.answered if answer.ended_by_length]
    if cut:  # an answer that repeats itself says less about the limit
        return _cut_off(answers, min(cut, key=lambda answer: repeats_itself(answer.text)))
    text = answers["count"].text
    if RIGHT["count"].text not in text:
        reason = answers["count"].completion.finish_reason or "(none)"
        advice = "some servers report stop for a cut-off answer: check the server's limit of output tokens"
        return Diagnosis("warn", f"an answer ends early, with finish_reason {reason}: …{clean(text[-60:])}", advice)
    tokens = answers["count"].completion.usage.output_tokens or len(text) // 4
    return Diagnosis("pass", f"{tokens} tokens in one answer")


def _cut_off(answers: Answers, cut: DoctorAnswer) -> Diagnosis:
    """Return the failure for a cut-off answer: it repeats itself, or the token limit should be raised."""
    tokens = cut.completion.usage.output_tokens
    limit = output_limit(answers.parameters)
    evidence = f"cut off after {'?' if tokens is None else tokens} tokens: …{clean(cut.text[-60:])}"
    if limit is not None:
        evidence += f" (the definition allows {limit})"
    if repeats_itself(cut.text):
        return Diagnosis("fail", f"an answer repeats itself and is {evidence}", cause_named("loop").advice)
    sent = answers.parameters_taken
    key = next((name for name in sent if output_limit({name: sent[name]})), "max_tokens")
    most = max(4096, 2 * (limit or 0))
    if answers.serving.context:  # leave half of it for prompts
        most = min(most, answers.serving.context // 2)
    change: Mapping[str, JSON] = {"parameters": {**sent, key: most}} if most > (limit or 0) else {}
    advice = f"also raise the server's own limit, if it has one ({answers.serving.advice('length')})"
    return Diagnosis("fail", evidence, advice, change)


_ENDS = frozenset({"stop", "end_turn", "eos", "eos_token", "complete"})
_ENDS_OF_CALLS = frozenset({"tool_calls", "function_call", "tool_use", "tool_call"})


def _finish_reasons_are_correct(answers: Answers) -> Diagnosis:
    """Check that whole answers and calls end with a finish reason that says so."""
    greeting = answers["greeting"].completion
    reason = greeting.finish_reason
    whole = (answer.completion for answer in answers.answered if not answer.ended_by_length)
    call = next((completion for completion in whole if completion.tool_calls), None)
    if reason is None or (call is not None and call.finish_reason is None):
        if answers.as_text:
            return Diagnosis("skip", "this kind of endpoint returns no finish reason")
        return Diagnosis("warn", "answers have no finish_reason: cut-off answers look complete")
    if call is not None and str(call.finish_reason).lower() not in _ENDS | _ENDS_OF_CALLS:
        return Diagnosis("warn", f"a complete call ends with finish_reason {clean(call.finish_reason)}")
    if reason.lower() not in (_ENDS | _ENDS_OF_CALLS if greeting.tool_calls else _ENDS):
        return Diagnosis("warn", f"a complete answer ends with finish_reason {clean(reason)}")
    of_call = "no complete call was made" if call is None else f"{clean(call.finish_reason)} after a call"
    of_text = "no text came" if greeting.tool_calls else f"{clean(reason)} after a text"
    return Diagnosis("pass", f"{of_call}, {of_text}")


_STOP_TOKEN = re.compile(
    r"<\|(?:im_end|im_start|eot_id|eom_id|end|eot|endoftext|end_of_text|return|user|assistant|observation)\|>|</s>|<eos>"
    r"|<end_of_turn>|<｜end▁of▁sentence｜>|<\|END_OF_TURN_TOKEN\|>|\[/INST\]"
)


def _stop_tokens_are_removed(answers: Answers) -> Diagnosis:
    """Check that no answer's text contains the model's end-of-turn token; suggest it as a `stop`."""
    for answer in answers.answered:
        token = _STOP_TOKEN.search(answer.raw_text)
        if token is not None:
            parameters = answers.parameters_taken
            stops = parameters.get("stop")
            if not isinstance(stops, list):
                stops = [] if stops is None else [stops]
            change: Mapping[str, JSON] = {"parameters": {**parameters, "stop": [*stops, token[0]]}}
            advice = f"the server does not know the end-of-turn token: set it ({answers.serving.advice('stop')})"
            return Diagnosis("fail", f"{token[0]} is left in the text: {clean(answer.text, 100)}", advice, change)
    if not any(answer.raw_text for answer in answers.answered):
        return Diagnosis("skip", "no answer has text")
    return Diagnosis("pass", "no answer contains a stop token")


_REPEAT = "use --repeat, and expect chance differences between runs"


def _answers_repeat(answers: Answers) -> Diagnosis:
    """Check that one question asked twice at temperature 0 gets the same text."""
    once, again = answers["primes"], answers["primes again"]
    if once.error or again.error:
        return Diagnosis("warn", f"temperature 0 is refused: {once.refusal or again.refusal}")
    if "temperature" in answers.facts.parameters:
        return Diagnosis("warn", "the API refuses temperature 0: answers differ from run to run", _REPEAT)
    if not (once.text or again.text):
        return Diagnosis("skip", "neither of the two answers has text")
    if once.text == again.text:
        return Diagnosis("pass", f"the same answer twice at temperature 0: {once.shown()}")
    return Diagnosis("warn", f"two answers at temperature 0 differ: {once.shown()} / {again.shown()}", _REPEAT)


def _streamed_calls_match(answers: Answers) -> Diagnosis:
    """Check that a streamed answer has the same call as the answer to the same question without a stream."""
    whole, streamed = answers["call"], answers["streamed"]
    if streamed.error is not None:
        return Diagnosis("warn", f"streams are refused: {streamed.refusal}", "leave stream: out")
    if answers.facts.repeats:
        return Diagnosis("fail", REPEATING, "leave stream: out, or update the server or its tool parser")
    if not streamed.answers_something and whole.answers_something:
        evidence = f"the stream is empty; without streaming, the answer is {whole.shown()}"
        return Diagnosis("fail", evidence, "leave stream: out")
    if streamed.completion.usage.output_tokens is None and whole.completion.usage.output_tokens is not None:
        return Diagnosis("warn", "streams report no tokens: Tunecheck estimates cost from characters")
    if not whole.calls:
        return Diagnosis("skip", f"there is no call to compare; the streamed text: {streamed.shown()}")
    pairs = zip(whole.calls, streamed.calls, strict=False)
    is_lost = any(call.arguments and not streamed_call.arguments for call, streamed_call in pairs)
    if is_lost or [call.name for call in streamed.calls] != [call.name for call in whole.calls]:
        advice = "the server's tool parser loses parts of calls in streams: leave stream: out, or update the server"
        return Diagnosis("fail", f"the call differs: {streamed.shown()} streamed, {whole.shown()} unstreamed", advice)
    first = streamed.completion.first_token_ms
    return Diagnosis("pass", "the call is the same" + (f", its first token after {first:.0f} ms" if first else ""))


def _usage_is_reported(answers: Answers) -> Diagnosis:
    """Check that the service reports tokens."""
    usage = answers["untooled"].completion.usage
    if usage.input_tokens is None or usage.output_tokens is None:
        return Diagnosis("warn", "the service reports no tokens: Tunecheck estimates cost and limits from characters")
    return Diagnosis("pass", f"{usage.input_tokens} tokens in, {usage.output_tokens} out")


def _rate_limits_are_known(answers: Answers) -> Diagnosis:
    """Check that the definition's request limit is no higher than the service's header allows."""
    headers = {name.lower(): value for name, value in answers.headers.items()}
    allowed = headers.get("x-ratelimit-limit-requests")
    if allowed is None:
        return Diagnosis("pass", "no limits in the headers; after a 429, Tunecheck waits and lowers the concurrency")
    limits = object_or_empty(answers.definition.get("limits"))
    limit = limits.get("requests_per_minute")
    evidence = f"{clean(allowed, 20)} requests a minute"
    if allowed.isdecimal() and isinstance(limit, (int, float)) and limit > int(allowed):
        change: Mapping[str, JSON] = {"limits": {**limits, "requests_per_minute": int(allowed)}}
        return Diagnosis("warn", f"the service allows {evidence}, but the definition sets {limit:g}", "", change)
    return Diagnosis("pass", evidence)


def _parameters_are_taken(answers: Answers) -> Diagnosis:
    """Check that the API accepted the definition's parameters and kept their token limit."""
    parameters = answers.parameters
    refused = [name for name in answers.facts.parameters if name in parameters]
    sent = answers.facts.parameters_of(parameters)
    if refused:
        advice = "after the first refusal, each run leaves out or renames the refused parameters"
        return Diagnosis("warn", "; ".join(f"the API refuses {name}" for name in refused), advice, {"parameters": sent})
    limit = output_limit(sent)
    longest = max((answer.completion.usage.output_tokens or 0 for answer in answers.answered), default=0)
    if limit is not None and longest > limit:
        advice = "the service may have another name for the limit: max_tokens, max_completion_tokens, max_new_tokens"
        return Diagnosis("warn", f"an answer has {longest} tokens, more than the limit of {limit}", advice)
    return Diagnosis("pass", ", ".join(parameters) or "none are given")


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """A check by name, with the questions that it needs answered.

    `of`: the check is about any answers, answers to questions with tools, or calls. `whole`: skip it if an answer was
    cut off. `of_chat`: it only applies to chat completions. `refused`: advice if its questions are refused.
    """

    name: str
    needs: tuple[str, ...]
    judge: Callable[[Answers], Diagnosis]
    of: Literal["answers", "tools", "calls"] = "calls"
    whole: bool = False
    of_chat: bool = False
    refused: str = ""

    def verdict(self, answers: Answers) -> Diagnosis:
        """Run the check. It fails if a question ended in an error, and is skipped if there is nothing to check."""
        without_tools = None if self.of == "answers" else answers.without_tools
        if without_tools:
            return Diagnosis("skip", without_tools)
        if self.of_chat and answers.as_text:
            return Diagnosis("skip", "only chat completions can be streamed")
        error = next((answers[name].error for name in self.needs if answers[name].error), None)
        if error is not None:
            return Diagnosis("fail", clean(str(error), 200), self.refused or advice_on(error), remedy_for(error))
        if self.of == "calls" and not answers.with_calls:
            return Diagnosis("skip", "no question was answered with a call")
        verdict = self.judge(answers)
        if verdict.status != "pass" and self.whole and any(answers[name].ended_by_length for name in self.needs):
            return Diagnosis("skip", f"the answer was cut off: {answers[self.needs[0]].shown()}")
        return verdict


_NO_RESULTS = "the chat template does not support the role tool: run conversations with --mode text"

CHECKS = (
    DoctorCheck("tools are shown to the model", (), call_checks.tools_are_shown, "answers"),
    DoctorCheck("calls are parsed", ("call",), call_checks.calls_are_parsed, "tools"),
    DoctorCheck("arguments are JSON", ("call",), call_checks.arguments_are_json),
    DoctorCheck("names are kept", ("call",), call_checks.names_are_kept),
    DoctorCheck("enums are obeyed", ("call",), call_checks.enum_is_obeyed, whole=True),
    DoctorCheck("types are kept", ("typed",), calls_as("typed"), whole=True),
    DoctorCheck("nested arguments", ("nested",), calls_as("nested"), whole=True),
    DoctorCheck("quotes and scripts", ("quoted",), calls_as("quoted"), whole=True),
    DoctorCheck("long lists of tools", ("long",), calls_as("long"), whole=True),
    DoctorCheck("parallel calls", ("parallel",), call_checks.calls_in_parallel, whole=True),
    DoctorCheck(
        "tool results are understood",
        ("result",),
        call_checks.results_are_understood,
        "tools",
        whole=True,
        refused=_NO_RESULTS,
    ),
    DoctorCheck("no needless calls", ("greeting",), call_checks.no_needless_call),
    DoctorCheck("finish reasons are correct", ("greeting",), _finish_reasons_are_correct, "tools", whole=True),
    DoctorCheck("streamed calls match", ("call",), _streamed_calls_match, "tools", whole=True, of_chat=True),
    DoctorCheck("system prompt is obeyed", ("system",), _system_is_obeyed, "answers", whole=True),
    DoctorCheck("reasoning is kept apart", ("untooled",), _reasoning_is_kept_apart, "answers"),
    DoctorCheck("nothing is cut off", ("count",), _nothing_is_cut_off, "answers"),
    DoctorCheck("stop tokens are removed", ("untooled",), _stop_tokens_are_removed, "answers"),
    DoctorCheck("parameters are taken", (), _parameters_are_taken, "answers"),
    DoctorCheck("answers repeat", (), _answers_repeat, "answers"),
    DoctorCheck("usage is reported", ("untooled",), _usage_is_reported, "answers"),
    DoctorCheck("rate limits", ("untooled",), _rate_limits_are_known, "answers"),
)
