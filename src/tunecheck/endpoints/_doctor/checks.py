"""The doctor's checks. Each examines some answers and returns a diagnosis with a suggested change.

`CHECKS` at the end lists the checks in the order of the report, with the question (of questions.json) that each needs.
The status of a check (`DoctorCheck.verdict`), in the order of its tests:

    skip   no request with tools was answered, and the check is about tools or calls
    fail   its question ended in an error
    skip   the check is about calls, and no answer has one
    skip   it found a problem, but the answer was cut off, which another check reports
    else   the finding of the check itself
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Literal

import msgspec

from tunecheck._errors import PluginError
from tunecheck._faults import cause_named, repeats_itself
from tunecheck._json import JSON, dumps, object_or_empty, text_or_json
from tunecheck._messages import clean, plural
from tunecheck.calls._model import arguments_problem, plain_name, tool_name
from tunecheck.endpoints._api_facts import remedy_for
from tunecheck.endpoints._base import output_limit
from tunecheck.endpoints._doctor.evidence import RIGHT, Answers, Diagnosis, DoctorAnswer, advice_on
from tunecheck.formats._families import server_parsers
from tunecheck.formats._reading import AUTO, choose_profile

# -- tools and calls: tools reach the model, and calls come back unchanged

_FEWEST_TOKENS_OF_A_TOOL = 20
"""A tool that reaches the model makes the prompt at least this many tokens longer."""

_COMMON_FAMILY = "hermes"
"""The format suggested for models of an unknown family, because most models have seen it."""


def _tools_are_shown(answers: Answers) -> Diagnosis:
    """Check by the number of prompt tokens that the model sees the tools; if not, suggest tools as text.

    Warn if the tokens cannot decide, or if the request template has no place for tools.
    """
    if answers.endpoint.tools_note:
        return Diagnosis("warn", answers.endpoint.tools_note)

    if answers["call"].error is not None:
        advice = f"turn on the tool parser: {answers.serving.advice('calls')}"
        return _suggest_tools_in_text(answers, f"requests with tools are refused: {answers['call'].refusal}", advice)

    tokens = answers.prompt_tokens
    if tokens is None:
        return Diagnosis("warn", "the service reports no prompt tokens, so this check cannot decide")
    evidence = "{} prompt tokens with a tool, {} without".format(*tokens)

    # The template shows the tools if they cost prompt tokens, whatever the model answers.
    if _tools_lengthen_prompt(answers):
        return Diagnosis("pass", evidence)
    if any(answer.completion.tool_calls for answer in answers.with_calls):
        return Diagnosis("warn", f"{evidence}, but the model calls tools: the service leaves tools out of the count")

    advice = f"use a chat template that shows tools ({answers.serving.advice('tools')})"
    return _suggest_tools_in_text(answers, f"{evidence}: the model does not see the tool", advice)


def _tools_lengthen_prompt(answers: Answers) -> bool:
    """Return whether a tool makes the prompt longer; True if the service reports no tokens."""
    with_tool, without = answers.prompt_tokens or (_FEWEST_TOKENS_OF_A_TOOL, 0)
    return with_tool - without >= _FEWEST_TOKENS_OF_A_TOOL


def _suggest_tools_in_text(answers: Answers, evidence: str, advice: str) -> Diagnosis:
    """Return a failure, with the advice to describe tools in the prompt (`tools: text`) unless the definition does."""
    if answers.definition.get("tools") == "text":
        return Diagnosis("fail", evidence)

    families = [answers.definition.get("format"), *(answer.text_reading.format for answer in answers.left_in_text)]

    # The family of the definition, else one that an answer shows.
    known = next((str(family) for family in families if family not in (None, AUTO)), None)
    family = known or _COMMON_FAMILY
    profile = choose_profile(family)

    change: dict[str, JSON] = {"tools": "text", "format": family} if profile and profile.prompt else {}
    guess = "" if known else f" ({family} is a guess: no answer shows the family)"
    return Diagnosis("fail", evidence, f"{advice}; or set `tools: text` and the family's `format`{guess}", change)


def _calls_are_parsed(answers: Answers) -> Diagnosis:
    """Check that a question was answered with a call, and that the server left no call in a text.

    Calls in texts pass if they are expected there. Without any call, the failure names a lost or unreadable one. If no
    call came because the model does not see the tools, the check is skipped.
    """
    # The order matters: a call in the text is the server's fault, whatever the other answers look like.
    in_text = answers.left_in_text
    if in_text and answers.endpoint.is_chat:
        return _left_in_text(answers, in_text[0])

    if answers.with_calls:
        first = answers.with_calls[0]
        read = " (read from the text)" if first.is_read_from_text or first in in_text else ""
        return Diagnosis("pass", f"{first.shown()}{read}")

    with_tools = [answer for answer in answers.answered if answer.request.tools]
    for answer in with_tools:
        if answer.cause_of_lost_call is not None:
            cause = cause_named(answer.cause_of_lost_call)
            excerpt = clean(answer.completion.reasoning or answer.raw_text, 120)
            return Diagnosis("fail", f"{cause.title}: {excerpt}", cause.advice)

    evidence = f"no call in {plural(len(with_tools), 'answer')} to questions with tools: {answers['call'].shown()}"
    if not _tools_lengthen_prompt(answers):
        return Diagnosis("skip", evidence)
    return Diagnosis("fail", evidence, "check the chat template, and that the model was trained to call functions")


def _left_in_text(answers: Answers, answer: DoctorAnswer) -> Diagnosis:
    """Return the failure for a call that the server left in the answer's text; suggest the parser or format to set."""
    family, change = str(answer.text_reading.format), dict[str, JSON]()
    with suppress(PluginError):  # not every format has the profile of a model family
        change = {"format": family} if choose_profile(family) else {}
    evidence = f"the call is left in the text, in the format {family}: {clean(answer.text, 120)}"
    return Diagnosis("fail", evidence, answers.serving.advice("calls", server_parsers(family, answer.raw_text)), change)


def _arguments_are_json(answers: Answers) -> Diagnosis:
    """Check that the arguments of calls are JSON objects as text, encoded once."""
    complete = (answer for answer in answers.answered if not (answer.ended_by_length or answer.is_read_from_text))
    calls = [call for answer in complete for call in answer.written_calls]

    for name, arguments in calls:
        shown = f"{clean(name, 60)} {clean(text_or_json(arguments), 100)}"
        # Some servers return the object itself, which only lenient clients read.
        if isinstance(arguments, dict):
            advice = "Tunecheck reads objects, too; other clients may not"
            return Diagnosis("warn", f"arguments are an object, not JSON text: {shown}", advice)

        found = arguments_problem(arguments) if isinstance(arguments, str) else ("bad_arguments", None)
        if found is not None:
            cause = cause_named(found[0])
            return Diagnosis("fail", f"{cause.title}: {shown}", cause.advice)
    return Diagnosis("pass", "JSON objects as text") if calls else Diagnosis("skip", "no complete call to check")


def _names_are_kept(answers: Answers) -> Diagnosis:
    """Check that calls use the names of offered functions unchanged, and that names with dots are accepted.

    Warn if the API refuses dots in names or replaces them by underscores.
    """
    for answer in answers.with_calls:
        offered = [str(object_or_empty(tool.get("function")).get("name")) for tool in answer.request.tools or ()]
        for call in answer.calls:
            if call.name in offered:
                continue

            # A prefix such as `functions.` stays in front of the name if the parser does not know it.
            called = plain_name(call.name)
            meant = next((name for name in offered if called.endswith(plain_name(name))), None)
            evidence = f"{meant or ' and '.join(offered[:3])} was offered, but {clean(call.name, 60)} was called"

            # APIs that allow no dots replace them by underscores: the call is right, but not by its name.
            if meant is not None and call.name == tool_name(meant):
                advice = "this API allows no dots in names: run with --set match.dots_equal_underscores=true"
                return Diagnosis("warn", evidence, advice)
            return Diagnosis("fail", evidence, "use the tool parser of the model's family: it removes prefixes")

    dotted = answers["dotted"]
    if dotted.error:
        advice = "rename functions with dots in your data; BFCL's functions are sent with underscores"
        return Diagnosis("warn", f"a function name with a dot is refused: {dotted.refusal}", advice)

    dots = "also with a dot" if dotted.calls else "the function with a dot was not called"
    return Diagnosis("pass", f"functions are called by their offered names; {dots}")


# Advice for a wrong call: the fault is in the parser, the template or the model.
_MODEL_OR_PARSER = "if the raw text is right, the tool parser is wrong, else the chat template or the model"


def _right_call(question: str, answers: Answers) -> Diagnosis:
    """Check that the answer to a question calls the right function with the right arguments (others may be added)."""
    right, answer = RIGHT[question], answers[question]
    arguments = answer.arguments_of(right.function)
    if arguments is None:
        return Diagnosis("fail", f"{right.function} was not called; the answer: {answer.shown()}", _MODEL_OR_PARSER)

    pairs = [
        f"{key} is {clean(dumps(arguments.get(key)).decode(), 80)}, not {dumps(value).decode()}"
        for key, value in right.arguments.items()
        if not _equal_in_json(arguments.get(key), value)
    ]
    return Diagnosis("fail", ", ".join(pairs), _MODEL_OR_PARSER) if pairs else Diagnosis("pass", answer.shown())


def _equal_in_json(value: JSON, expected: JSON) -> bool:
    """Return whether two values are equal in JSON: 20.0 equals 20, but 1 does not equal true."""
    return value == expected and isinstance(value, bool) == isinstance(expected, bool)


def _calls_in_parallel(answers: Answers) -> Diagnosis:
    """Check that a question about two cities was answered with a call for each."""
    answer = answers["parallel"]
    # Any order, and names such as "Lisbon, Portugal", are right.
    cities = {str(call.arguments.get("city")).lower() for call in answer.calls}
    if all(any(expected in city for city in cities) for expected in ("lisbon", "oslo")):
        return Diagnosis("pass", answer.shown())

    evidence = f"the question needs two calls; the answer has {len(answer.calls)}: {answer.shown()}"
    return Diagnosis("warn", evidence, "set parallel_tool_calls, or check that the parser reads more than one call")


def _results_are_understood(answers: Answers) -> Diagnosis:
    """Check that the answer after a tool result contains the result; a second call in its place is a failure."""
    answer = answers["result"]
    if RIGHT["result"].text in answer.text:
        return Diagnosis("pass", answer.shown())
    # The question has a tool result; a second call shows that the model did not get it.
    if answer.calls:
        advice = "the chat template leaves out messages with the role tool: the model does not see results"
        return Diagnosis("fail", f"the model calls again instead of using the result: {answer.shown()}", advice)
    return Diagnosis("fail", f"the result ({RIGHT['result'].text}) is not in the answer: {answer.shown()}")


# -- answers, reasoning, limits and the API


_HIDDEN_TOKENS = 40
"""An answer with this many more tokens than characters contains hidden reasoning."""


def _reasoning_is_kept_apart(answers: Answers) -> Diagnosis:
    """Check that the service returns reasoning apart from the text: not in it, not in its place, not hidden."""
    thoughtful = [answer for answer in answers.answered if answer.completion.reasoning]
    leaked = next(
        (each for each in thoughtful if str(each.completion.reasoning) in (each.completion.raw_text or "")), None
    )
    if leaked is not None:
        advice = f"{answers.serving.advice('reasoning')}. Tunecheck removes the reasoning itself: its results are right"
        return Diagnosis("fail", f"an answer's text contains reasoning: {clean(leaked.raw_text, 120)}", advice)

    whole = (answer for answer in thoughtful if not answer.ended_by_length)
    empty = next((answer for answer in whole if not (answer.text or answer.completion.tool_calls)), None)
    if empty is not None:
        evidence = f"an answer consists of reasoning, and its text is empty: {clean(empty.completion.reasoning, 120)}"
        return Diagnosis("fail", evidence, "leave out the reasoning parser, or choose the parser of the model's family")

    if thoughtful:
        excerpt = clean(thoughtful[0].completion.reasoning, 100)
        return Diagnosis("pass", f"the service returns reasoning apart from the text: {excerpt}")

    # Hidden reasoning costs output tokens without text.
    for answer in answers.answered:
        usage, length = answer.completion.usage, len(answer.text)
        tokens = usage.output_tokens or usage.reasoning_tokens or 0
        has_extra_tokens = not answer.calls and tokens > length + _HIDDEN_TOKENS
        if has_extra_tokens or usage.reasoning_tokens:
            advice = "if possible, let the service return reasoning: you pay for it, and it explains wrong answers"
            evidence = f"{tokens} output tokens for {length} characters: the service does not return its reasoning"
            return Diagnosis("warn", evidence, advice)
    return Diagnosis("pass", f"no reasoning in {len(answers.answered)} answers")


def _nothing_is_cut_off(answers: Answers) -> Diagnosis:
    """Check that no finish reason reports a token limit, and that the answer to the counting question is complete."""
    cut = [answer for answer in answers.answered if answer.ended_by_length]

    # An answer that repeats itself says less about the limit, so it is used last.
    if cut:
        return _cut_off(answers, min(cut, key=lambda answer: repeats_itself(answer.text)))

    # The model was asked to count, so the last number shows whether the end is missing.
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
    limit = output_limit(answers.definition.get("parameters"))
    evidence = f"cut off after {'?' if tokens is None else tokens} tokens: …{clean(cut.text[-60:])}"
    if limit is not None:
        evidence += f" (the definition allows {limit})"

    # More tokens would only make the repetition longer.
    if repeats_itself(cut.text):
        return Diagnosis("fail", f"an answer repeats itself and is {evidence}", cause_named("loop").advice)

    # Double the limit, to 4,096 at least, under the name that the API takes.
    sent = answers.parameters_taken
    key = next((name for name in sent if output_limit({name: sent[name]})), "max_tokens")
    most = max(4096, 2 * (limit or 0))

    # Leave half of the context for prompts.
    if answers.serving.context:
        most = min(most, answers.serving.context // 2)

    change: Mapping[str, JSON] = {"parameters": {**sent, key: most}} if most > (limit or 0) else {}
    advice = f"also raise the server's own limit, if it has one ({answers.serving.advice('length')})"
    return Diagnosis("fail", evidence, advice, change)


# Finish reasons of servers and APIs for a complete answer, and for one with calls.
_ENDS = frozenset({"stop", "end_turn", "eos", "eos_token", "complete"})
_ENDS_OF_CALLS = frozenset({"tool_calls", "function_call", "tool_use", "tool_call"})


def _finish_reasons_are_correct(answers: Answers) -> Diagnosis:
    """Check that complete answers and calls have a finish reason, and that it stands for a complete answer or call."""
    whole = [answer.completion for answer in answers.answered if not answer.ended_by_length]
    for completion in whole:
        reason = completion.finish_reason
        if reason is None and not answers.endpoint.is_chat:
            return Diagnosis("skip", "this kind of endpoint returns no finish reason")
        if reason is None:
            return Diagnosis("warn", "answers have no finish_reason, so cut-off answers look complete")

        if reason.lower() not in (_ENDS | _ENDS_OF_CALLS if completion.tool_calls else _ENDS):
            kind = "a call" if completion.tool_calls else "a complete answer"
            return Diagnosis("warn", f"{kind} ends with finish_reason {clean(reason)}, not stop")
    reasons = dict.fromkeys(clean(completion.finish_reason) for completion in whole)
    return Diagnosis("pass" if whole else "skip", ", ".join(reasons))


# End-of-turn and role tokens of model families: ChatML, Llama, Phi, Gemma, DeepSeek, Command R, Mistral and others.
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


# Advice if answers differ although they should not.
_REPEAT = "use --repeat, and expect chance differences between runs"


def _answers_repeat(answers: Answers) -> Diagnosis:
    """Check that one question asked twice at temperature 0 gets the same text; else, or without an answer, warn."""
    once, again = answers["primes"], answers["primes again"]
    if once.error or again.error:
        return Diagnosis("warn", f"no answer at temperature 0: {once.refusal or again.refusal}")
    if "temperature" in answers.endpoint.facts.parameters:
        return Diagnosis("warn", "the API refuses temperature 0: answers differ from run to run", _REPEAT)
    if not (once.text or again.text):
        return Diagnosis("skip", "neither of the two answers has text")

    if once.text == again.text:
        return Diagnosis("pass", f"the same answer twice at temperature 0: {once.shown()}")
    return Diagnosis("warn", f"two answers at temperature 0 differ: {once.shown()} / {again.shown()}", _REPEAT)


def _streamed_calls_match(answers: Answers) -> Diagnosis:
    """Check that a streamed answer calls the same functions as the answer to the same question without a stream.

    The values of the arguments may differ, but a call must not lose all its arguments in the stream, and the stream
    must not be empty. Warn if streams are refused or report no tokens; skip without a call to compare, or if the
    endpoint has no chat completions, because only these can be streamed.
    """
    if not answers.endpoint.is_chat:
        return Diagnosis("skip", "only chat completions can be streamed")

    whole, streamed = answers["call"], answers["streamed"]
    if streamed.error is not None:
        return Diagnosis("warn", f"streams are refused: {streamed.refusal}", "do not set `stream`")

    if not (streamed.calls or streamed.raw_text or streamed.completion.reasoning) and whole.shown() != "nothing":
        return Diagnosis("fail", f"the stream is empty; unstreamed: {whole.shown()}", "do not set `stream`")

    if streamed.completion.usage.output_tokens is None and whole.completion.usage.output_tokens is not None:
        return Diagnosis("warn", "streams report no tokens: Tunecheck estimates cost from characters")

    if not whole.calls:
        return Diagnosis("skip", f"there is no call to compare; the streamed text: {streamed.shown()}")

    # Arguments that the stream lost are empty, although the call is there. Missing calls show in the names below.
    pairs = zip(whole.calls, streamed.calls, strict=False)
    is_lost = any(call.arguments and not streamed_call.arguments for call, streamed_call in pairs)
    if is_lost or [call.name for call in streamed.calls] != [call.name for call in whole.calls]:
        advice = "the server's tool parser loses parts of calls in streams: do not set `stream`, or update the server"
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
    """Check that the definition's request limit is no higher than the service's header allows; pass without either."""
    headers = {name.lower(): value for name, value in answers.endpoint.reply_headers().items()}

    # OpenAI's header, which other services use, too; without it, the limit is unknown.
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


class DoctorCheck(msgspec.Struct, frozen=True):
    """A check by name, with the question that it needs answered.

    `about`: the check examines any answers, answers to questions with tools, or calls. `needs_whole`: it is skipped if
    that answer was cut off. `if_refused`: advice if the endpoint refuses the question.
    """

    name: str
    question: str
    examine: Callable[[Answers], Diagnosis]
    about: Literal["answers", "tools", "calls"] = "calls"
    needs_whole: bool = False
    if_refused: str = ""

    def verdict(self, answers: Answers) -> Diagnosis:
        """Run the check. It fails if its question ended in an error.

        It is skipped if there is nothing to check, or if it found a problem, but the answer was cut off.
        """
        no_tools_reason = None if self.about == "answers" else answers.without_tools
        if no_tools_reason:
            return Diagnosis("skip", no_tools_reason)

        answer = answers[self.question]
        if (error := answer.error) is not None:
            return Diagnosis("fail", clean(str(error), 200), self.if_refused or advice_on(error), remedy_for(error))
        if self.about == "calls" and not answers.with_calls:
            return Diagnosis("skip", "no question was answered with a call")

        verdict = self.examine(answers)

        if self.needs_whole and answer.ended_by_length and verdict.status != "pass":
            return Diagnosis("skip", f"the answer was cut off: {answer.shown()}")
        return verdict


# Advice if the messages with a tool result are refused.
_NO_RESULTS = "the chat template does not support the role tool: run conversations with --mode text"

# Name, question, check, and what it is about; the names are those of docs/doctor.md.
CHECKS = (
    DoctorCheck("tools are shown to the model", "untooled", _tools_are_shown, "answers"),
    DoctorCheck("calls are parsed", "call", _calls_are_parsed, "tools"),
    DoctorCheck("arguments are JSON", "call", _arguments_are_json),
    DoctorCheck("names are kept", "call", _names_are_kept),
    DoctorCheck("enums are obeyed", "call", partial(_right_call, "call"), needs_whole=True),
    DoctorCheck("types are kept", "typed", partial(_right_call, "typed"), needs_whole=True),
    DoctorCheck("nested arguments", "nested", partial(_right_call, "nested"), needs_whole=True),
    DoctorCheck("quotes and scripts", "quoted", partial(_right_call, "quoted"), needs_whole=True),
    DoctorCheck("long lists of tools", "long", partial(_right_call, "long"), needs_whole=True),
    DoctorCheck("parallel calls", "parallel", _calls_in_parallel, needs_whole=True),
    DoctorCheck(
        "tool results are understood",
        "result",
        _results_are_understood,
        "tools",
        needs_whole=True,
        if_refused=_NO_RESULTS,
    ),
    DoctorCheck("finish reasons are correct", "greeting", _finish_reasons_are_correct, "tools", needs_whole=True),
    DoctorCheck("streamed calls match", "call", _streamed_calls_match, "tools", needs_whole=True),
    DoctorCheck("reasoning is kept apart", "untooled", _reasoning_is_kept_apart, "answers"),
    DoctorCheck("nothing is cut off", "count", _nothing_is_cut_off, "answers"),
    DoctorCheck("stop tokens are removed", "untooled", _stop_tokens_are_removed, "answers"),
    DoctorCheck("answers repeat", "untooled", _answers_repeat, "answers"),
    DoctorCheck("usage is reported", "untooled", _usage_is_reported, "answers"),
    DoctorCheck("rate limits", "untooled", _rate_limits_are_known, "answers"),
)
