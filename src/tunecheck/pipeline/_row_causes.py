"""The cause of a failed row: a `Fault` with a code of codes.toml, from its answer, errors and evaluators' faults.

A row can show several causes. All are collected, and the first in the order of codes.toml counts. They are looked for
in this order:

1.  If the target failed, its error is the only cause: `unreachable`, `throttled`, `timed_out` and the like.
2.  If no evaluator's result is `fail`, there is no cause.
3.  The answer itself:
    -   its end: `filtered`, `overflow`, `cut_off.endless`, `thinking_used_budget`, `cut_off`
    -   its text: `echoed_prompt`, `token_in_text`
    -   its arguments: `bad_arguments`, `double_encoded`, `trailing_tag`, `garbled_text`
    -   a call that the server did not return, or that cannot be read: `call_in_reasoning`, `call_lost_by_parser`,
        `unreadable`
    -   its calls: `call_left_in_text`, `unknown_function`, `decorated_name`, `wrapped_arguments`, `doubled_call`,
        `loop`, `extra_call`
    -   no call at all: `refusal`, `asked_back`, `empty_answer`, `answered_instead_of_calling`
4.  The faults of the failing evaluators, after more precise ones replace general ones: `wrong_function`,
    `missing_call`, `extra_call`, `wrong_argument.type` and the like.

For example, an answer that was cut off inside a call has the causes `cut_off` and `unreadable`. `cut_off` comes first
in codes.toml, so it is the row's cause.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tunecheck import _faults as symptoms
from tunecheck._faults import Fault, cause_of_fault, causes, rank_of_cause, read_faults
from tunecheck._json import JSON, canonical, object_or_empty, text_or_json, value_of
from tunecheck.calls._model import FunctionCall, Reading, arguments_problem, decode_calls, plain_name, tool_name
from tunecheck.calls._schemas import TOOL_COLUMNS, ToolDefinitions
from tunecheck.endpoints._base import BEGUN, UNPARSED, content_parts
from tunecheck.formats._reading import cached_reading, tools_of, without_thoughts
from tunecheck.pipeline._results import RowState
from tunecheck.pipeline._scoring import BoundEvaluator

_UNEXPLAINED = frozenset({"call_count", "no_matching_call", "wrong_argument.other"})
"""Faults that, without a path, only state that calls differ."""

_FILTERED = symptoms.in_any_case(
    "content_filter content_filtered guardrail_intervened safety recitation blocklist prohibited_content spii"
)
"""The `finish_reason`s of answers that a content filter stopped, in the words of several services."""

_OVERFLOWED = "model_context_window_exceeded"
"""The `finish_reason` for a full context window."""

_REFUSED = "refusal"
"""The `finish_reason` for a refusal."""

_WITHOUT_CALL = frozenset({"answered_instead_of_calling", "empty_turn", "unreadable_call"})
"""Codes of faults for which there is no readable call."""

_NAME_FAULTS = frozenset({"misnamed_call", "missing_call", "unknown_function", "no_matching_call"})
"""Codes of faults that a different spelling of a function's name can explain."""

_MOST_COMPARED, _LONGEST_NAME = 500, 200
"""Limits of the search for a similar name, which is slow: tools to compare, and characters of the called name."""

_CALLS_OF_LOOP = 3
"""This many equal calls in one answer are a loop, unless the ground truth repeats the call."""

_ENDS_OF_CALLS = symptoms.in_any_case("tool_calls tool_call function_call tool_use")
"""The `finish_reason`s that announce calls."""

_TOKEN = re.compile(r"<[|｜][^<>\s]{1,40}[|｜]>")
"""Matches a special token of a chat template, such as `<|im_end|>`."""

_USER_TURN = re.compile(r"(?:<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>)user|<\|user\|>|<｜User｜>|\[INST]")
"""Matches the token of a chat template that begins a message of the user, such as `<|im_start|>user` or `[INST]`."""

_BEFORE_PROMPT = re.compile(r"\A(?:\s|<[^<>\s]{1,40}>|\[/?INST]|(?i:system|user|human)\b:?|#)++")
"""Matches the tokens and roles of a chat template before a message, such as `<|im_start|>user` or `### Human: `."""

_WRAPPED = {"name", "arguments", "parameters", "type", "id"}
"""The keys of a call. Arguments with only such names may be a whole call: `{"arguments": {"city": "Paris"}}`."""

_DECORATED = r"((?s:.*(?:\W|__))?){}(\W*|\W\d+|(?s:\W*<.*))"
"""Matches a function's name with what servers and models add, such as `functions.f:0`, `f()` or `<tool_call>f`.

The name replaces `{}`. Group 1 has the text before the name, group 2 the text after it.
"""

_END_OF_TURN_TOKENS = 2
"""Output tokens that an empty answer may count, because servers count the token that ends the turn."""

_AMBIGUOUS = frozenset({"bfcl", "bfcl_text"})
"""Formats that ordinary data or prose can resemble: `[{"paris": {"temperature": 20}}]` and `[f(a=1)]`."""


def decide_cause(state: RowState, evaluators: Sequence[BoundEvaluator], *, lenient: bool) -> Fault | None:
    """Return the main cause of a row's failure: the first in the order of codes.toml.

    With `lenient`, evaluators got wrongly encoded arguments decoded, so the encoding is no cause. Return None if the
    row did not fail, if no known cause applies, or if its values raise an exception.
    """
    try:
        return min(_causes(state, evaluators, lenient), key=lambda cause: rank_of_cause(cause.code), default=None)
    except Exception:  # noqa: BLE001 - a row may hold objects of any class, which may raise anything
        return None


def _causes(state: RowState, evaluators: Sequence[BoundEvaluator], lenient: bool) -> Iterator[Fault]:
    """Yield all causes of a row's failure, in any order: the target's error, else causes from answer and faults.

    `lenient`: see `decide_cause`. Without an error of the target, only a row with a failing evaluator has causes.
    """
    if (target_error := state.errors.get("target")) is not None:
        yield Fault(code=target_error.cause or symptoms.error_cause(f"{target_error.type}: {target_error.message}"))
        return

    items = ((name, key, value) for name, output in state.outputs.items() for key, value in output.items())
    failing = {name for name, key, value in items if value == "fail" and key.endswith("_result")}
    if not failing:
        return

    # The faults of the failing evaluators, and the arguments that they got.
    with_output = [evaluator for evaluator in evaluators if evaluator.name in state.outputs]
    arguments: dict[str, object] = {}
    # The arguments of failing evaluators come last, so that they replace those of the others.
    for evaluator in sorted(with_output, key=lambda bound: bound.name in failing):
        arguments |= evaluator.bind(state.row.values, state.target)

    outputs = [state.outputs[evaluator.name] for evaluator in with_output if evaluator.name in failing]
    properties = [value for output in outputs for key, value in output.items() if key.endswith("_properties")]
    faults = [fault for value in properties for fault in read_faults(value)]

    # The calls as the evaluators read them.
    decoded = decode_calls(state.target.get("tool_calls")) if lenient else None
    columns = {**state.target, "tool_calls": decoded} if decoded else state.target
    answer = FailedAnswer(state.kind, state.row.values, columns, arguments, faults)

    yield from _answer_causes(answer)
    explained = [precise for fault in faults for precise in _more_precise(fault, answer)]
    yield from _swap_faults(explained)
    for fault in explained:
        yield from _causes_of_fault(fault, answer)


def _more_precise(fault: Fault, answer: FailedAnswer) -> Sequence[Fault]:
    """Return more precise faults in place of a fault, or the fault itself if there are none.

    A misnamed call of a conversation may become `decorated_name`. A fault that only states that calls differ becomes
    the differences from the ground truth, else `extra_call` or `missing_call` if it is `call_count`.
    """
    called = fault.actual.get("name") if isinstance(fault.actual, dict) else None
    if fault.code == "misnamed_call" and fault.call and isinstance(called, str) and not answer.tools:
        # A conversation does not list its tools: the simulators define them.
        misnaming = name_fault(called, [fault.call])
        return [replace(misnaming, turn=fault.turn)] if misnaming.code.startswith("decorated_name") else [fault]

    # A fault with a path names the place in the arguments, so it is precise.
    if fault.code not in _UNEXPLAINED or fault.path is not None:
        return [fault]

    if differences := [*_difference_faults(answer)]:
        return differences

    if fault.code == "call_count":
        has_extra = len(answer.reading.calls) > len(answer.truth.calls)
        return [replace(fault, code="extra_call" if has_extra else "missing_call")]
    return [fault]


def _swap_faults(faults: Sequence[Fault]) -> Iterator[Fault]:
    """Yield further causes from missing and extra calls.

    First, `decorated_name` for each extra call that has the name of a missing call with something added: `functions.f`
    is extra, `f` is missing. Then, if there are both missing and extra calls, `wrong_function` for the first of both.
    """
    missing, extra = ([fault for fault in faults if fault.code == code] for code in ("missing_call", "extra_call"))

    names = [fault.call for fault in missing if fault.call]
    for fault in extra:
        if names and fault.call:
            misnaming = name_fault(fault.call, names)
            if misnaming.code.startswith("decorated_name"):
                yield replace(misnaming, turn=fault.turn)

    # The extra call stands in the place of the missing one.
    if missing and extra:
        expected, actual = {"name": missing[0].call}, {"name": extra[0].call}
        yield Fault(code="wrong_function", call=missing[0].call, turn=missing[0].turn, expected=expected, actual=actual)


def _causes_of_fault(fault: Fault, answer: FailedAnswer) -> Iterator[Fault]:
    """Yield the causes of failure that an evaluator's fault shows: more precise ones first, then the fault's own."""
    if _encoded_twice(fault, answer.tools):
        yield replace(fault, code="double_encoded")
    elif fault.code.startswith("wrong_argument") and _is_garbled(fault):
        yield replace(fault, code="garbled_text")

    # Otherwise the answer's own causes say more: a call left in the text, or an answer instead of a call.
    if fault.code == "unreadable_call" and not answer.reading.calls and not answer.expects_call:
        yield replace(fault, code="unreadable")

    # A fault is a cause if codes.toml or a plug-in lists its code among the causes, or if it is a wrong argument.
    code = cause_of_fault(fault.code)
    if code in causes() or code.startswith("wrong_argument."):
        yield replace(fault, code=code)


def _difference_faults(answer: FailedAnswer) -> Iterator[Fault]:
    """Yield the differences between the answer's calls and the calls that the ground truth accepts.

    Without calls on both sides, there are no differences. Arguments that the schema wants as text are skipped.
    """
    # Dots in names count as underscores.
    made, accepted = (
        [FunctionCall(tool_name(call.name), call.arguments) for call in reading.calls]
        for reading in (answer.reading, answer.truth)
    )
    if not made or not accepted:
        return
    from tunecheck.calls import matching  # imported here, because rows of texts need none of it

    # The leaderboard ignores these differences, too.
    loose = matching.MatchPolicy(alternatives=True, ignore_case=True, ignore_whitespace=True, int_equals_float=True)
    match = matching.match_calls(made, accepted, loose)

    yield from matching.call_faults(match, loose)
    for fault in matching.argument_faults(match):
        if fault.path is not None and not _should_be_text(fault, answer.tools):
            yield fault


# -- what an answer itself says: how it ended, how its calls are written, what its text does


class FailedAnswer:
    """The answer of a failed row, as its failing evaluators received it; `codes` are those of their faults.

    `response` is the answer, and `reading` has its calls and text. For a conversation, both are those of the last step
    in the first turn with a fault, else in the last turn. `columns` are the target's columns for this answer. `truth`
    has the calls and text of the ground truth. `prompt` are the texts of the row's messages.

    `expects_call` is true if the row's kind is `call`, or if a fault says that a call is missing; `expects_text` if the
    kind is `answer`. For a conversation, the kind does not count, because it covers all turns.
    """

    def __init__(
        self,
        kind: str | None,
        row: Mapping[str, object],
        columns: Mapping[str, JSON],
        arguments: Mapping[str, object],
        faults: Sequence[Fault],
    ) -> None:
        """Read the answer of a row of this kind, with its data `row` and the target's `columns`.

        `arguments` are those of the evaluators, and `faults` those that failing evaluators found.
        """
        self.codes = frozenset(fault.code for fault in faults)
        self.columns = columns

        # A conversation has its steps in a list of turns. The first turn with a fault is examined, else the last one.
        turns = _turns(columns)
        if turns is None:
            self.response = _answer_to_examine(columns, arguments)
        else:
            number = next((fault.turn for fault in faults if fault.turn is not None), len(turns))
            self.response, self.columns = _last_item(columns["result"], number), _turn_columns(columns, number)

        self.is_text = isinstance(self.response, str)
        """True if the response is a text instead of an API's list of calls."""
        lacks_call = bool(self.codes & (_WITHOUT_CALL - {"unreadable_call"}))  # a fault says that a call is missing
        self.expects_call = lacks_call or (kind == "call" and turns is None)
        self.expects_text = kind == "answer" and turns is None

        self.tools = tools_of(*(source.get(name) for source in (arguments, row) for name in TOOL_COLUMNS))
        self.reading = _read_answer(self.response, self.tools, expects_call=self.expects_call)
        self.truth = cached_reading(arguments.get("ground_truth"), self.tools)
        self.prompt = _prompt_texts(row)

    @property
    def text(self) -> str:
        """The response's text without reasoning."""
        return without_thoughts(self.reading.text)[1]

    @property
    def echoes_prompt(self) -> bool:
        """True if the response is a text that begins with a message of the prompt, or with the whole prompt.

        The whole prompt is recognized by its template: the text begins with tokens of a chat template, and a message of
        the prompt follows the token that begins a turn of the user.
        """
        text = self.response if isinstance(self.response, str) else ""
        body = _BEFORE_PROMPT.sub("", text)
        turn = _USER_TURN.search(text) if body != text else None  # a template may begin with words of its own
        return any(body.startswith(message) or (turn and message in text[turn.end() :]) for message in self.prompt)

    @property
    def has_reasoned(self) -> bool:
        """True if the model reasoned before it answered."""
        tokens = object_or_empty(self.columns.get("usage")).get("reasoning_tokens")
        return bool(self.columns.get("reasoning") or tokens or self.reading.reasoning)


def _prompt_texts(row: Mapping[str, object]) -> list[str]:
    """Return the texts of a row's system and user messages, of all turns; texts under 10 characters are left out."""
    # A column holds messages, or turns that are lists of messages.
    parts = [part for value in row.values() if isinstance(value, list) for part in value]
    messages = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    asked = [message for message in messages if isinstance(message, dict) and message.get("role") in ("system", "user")]

    # Without messages, the prompt is a plain text in one of these columns.
    texts: list[object] = [text for message in asked for text in content_parts(message)]
    texts = texts or [*map(row.get, ("messages", "query", "question", "prompt"))]

    return [text for text in texts if isinstance(text, str) and len(text) >= 10]


def _turns(columns: Mapping[str, JSON]) -> list[list[JSON]] | None:
    """Return a conversation's steps by turn, or None if the row is not a conversation."""
    # Such a column is [[step, step], [step]]: each turn is a list of steps.
    result = columns.get("result")
    turns = [turn for turn in result if isinstance(turn, list)] if isinstance(result, list) else []
    return turns if turns and isinstance(result, list) and len(turns) == len(result) else None


def _last_item(by_turn: JSON, number: int) -> JSON:
    """Return the last step of turn `number` (from 1) in a list of turns, or None."""
    steps = by_turn[number - 1] if isinstance(by_turn, list) and 0 < number <= len(by_turn) else None
    return steps[-1] if isinstance(steps, list) and steps else None


def _turn_columns(columns: Mapping[str, JSON], number: int) -> Mapping[str, JSON]:
    """Return a conversation's columns as if the last answer of turn `number` (from 1) were the only one.

    Finish reason and reasoning are those of that answer. The output tokens, a sum over all answers, are removed.
    """
    usage = columns.get("usage")
    changed: dict[str, JSON] = {"usage": {**usage, "output_tokens": None} if isinstance(usage, dict) else None}

    for column, column_by_turn in (("finish_reason", "finish_reasons"), ("reasoning", "reasoning_content")):
        if isinstance(columns.get(column_by_turn), list):
            changed[column] = _last_item(columns[column_by_turn], number)
    return {**columns, **changed}


def _answer_to_examine(columns: Mapping[str, JSON], arguments: Mapping[str, object]) -> object:
    """Return the API's calls if there are any, else the first of response, text and result with a value, else None."""
    calls = columns.get("tool_calls")
    if isinstance(calls, list) and calls:
        return calls

    values = (arguments.get("response"), columns.get("response"), columns.get("text"), arguments.get("result"))
    return next((value for value in values if value is not None and value == value), None)  # pandas writes NaN for None


def _read_answer(response: object, tools: ToolDefinitions, *, expects_call: bool) -> Reading:
    """Return the calls and text of an answer; with `expects_call`, read a bare call to an unknown function, too.

    For example, `[book_hotel(city='Paris')]` is such a call if the row's tools have only `book_table`.
    """
    reading = cached_reading(response, tools)
    if not expects_call or reading.calls or reading.problem is not None or not isinstance(response, str):
        return reading

    # Without tools, a call may have any name.
    bare = cached_reading(response)
    is_only_calls = bare.format == "bfcl_text" and not bare.text  # else it may be prose with brackets, or data
    is_certain = is_only_calls or bare.format not in _AMBIGUOUS
    return bare if bare.calls and is_certain else reading


def _answer_causes(answer: FailedAnswer) -> Iterator[Fault]:
    """Yield the causes of failure that the answer alone shows, in any order."""
    yield from _ending_faults(answer)

    token = "".join(_TOKEN.findall(answer.text)[:1])  # the first one, or an empty text
    if answer.echoes_prompt:
        yield Fault(code="echoed_prompt", actual=answer.text)
    elif token and answer.expects_text and not any(token in said for said in (answer.truth.text, *answer.prompt)):
        yield Fault(code="token_in_text", message=f"{token} is in the text")

    encoding_faults = [*_encoding_faults(answer)]
    yield from encoding_faults
    lost = None if encoding_faults else _lost_call_fault(answer)  # a call with wrong encoding did arrive

    if lost is not None:
        yield lost
    elif answer.reading.problem is not None:
        if not encoding_faults:
            code = "call_lost_by_parser" if answer.columns.get("tool_calls") else "unreadable"  # else no parser ran
            yield Fault(code=code, message=answer.reading.problem)
    elif answer.reading.calls:
        yield from _call_faults(answer)
    else:
        yield from _no_call_faults(answer)


def _lost_call_fault(answer: FailedAnswer) -> Fault | None:
    """Return the fault of a call that the model wrote but the server did not return as one, or None without signs.

    There are three signs:

    1.  a call in the reasoning
    2.  a call begun in the text of an answer that was not cut off
    3.  a finish reason that announces calls
    """
    reading, reason = answer.reading, answer.columns.get("finish_reason")
    if reading.cause == "call_in_reasoning":
        return Fault(code="call_in_reasoning", message=reading.problem)

    if reading.calls or not answer.expects_call:
        return None

    # If the answer has a text or was cut off, a call in its reasoning is only a draft.
    reasoning = answer.columns.get("reasoning")
    says_nothing_else = not answer.text.strip() and reason not in symptoms.CUT_OFF
    if isinstance(reasoning, str) and says_nothing_else:
        for call in cached_reading(reasoning, answer.tools).complete_calls[:1]:  # the first one, if there is any
            return Fault(code="call_in_reasoning", call=call.name, actual=call.arguments)

    has_begun_call = answer.columns.get(UNPARSED) == BEGUN and reason not in (None, *symptoms.CUT_OFF)
    if has_begun_call or (reason in _ENDS_OF_CALLS and reading.problem is None):
        problem = reading.problem or "the answer has no call"
        return Fault(code="call_lost_by_parser", message=f"finish_reason {reason}, but {problem}")
    return None


def reply_cause(columns: Mapping[str, JSON]) -> str:
    """Return the code of the cause that makes a reply unusable, such as a judge's; `unreadable` if no other applies."""
    answer = FailedAnswer(None, {}, columns, {}, ())
    found = [*_ending_faults(answer), *_no_call_faults(answer)]
    return found[0].code if found else "unreadable"


# -- how it ended


def _ending_faults(answer: FailedAnswer) -> Iterator[Fault]:
    """Yield the causes in how the answer ended: an error, a content filter, a full context, or a length limit."""
    reason, error = answer.columns.get("finish_reason"), answer.columns.get("error")
    if isinstance(error, str):  # a recorded conversation that failed before its answer
        yield Fault(code=symptoms.error_cause(error), message=error)

    if reason in _FILTERED:
        yield Fault(code="filtered", message=f"finish_reason {reason}")
    elif reason == _OVERFLOWED:
        yield Fault(code="overflow", message=f"finish_reason {reason}")
    elif reason in symptoms.CUT_OFF or (reason is None and _stops_midway(answer)):
        unanswered = not (answer.reading.calls or answer.reading.problem or answer.text.strip())
        code = "thinking_used_budget" if answer.has_reasoned and unanswered else "cut_off"

        # In words, for example "finish_reason length after 512 tokens".
        tokens = object_or_empty(answer.columns.get("usage")).get("output_tokens")
        ending = f"finish_reason {reason}" if reason is not None else "the text ends in the middle"
        ending = f"{ending} after {tokens} tokens" if tokens is not None else ending
        if reason is not None and symptoms.repeats_itself(answer.text):
            code, ending = "cut_off.endless", f"{ending}, and the text repeats itself"
        elif _USER_TURN.search(answer.text):
            code, ending = "cut_off.endless", f"{ending}, and the text goes on with a user message"

        yield Fault(code=code, message=ending)


def _stops_midway(answer: FailedAnswer) -> bool:
    """Return True if a text answer stops in the middle of a call or of its reasoning."""
    reading = answer.reading
    ends_in_thought = reading.reasoning != "" and reading.text.rstrip().endswith(reading.reasoning)
    # If the text cannot be read, the problem's cause decides. Otherwise nothing may follow the reasoning.
    return answer.is_text and (reading.cause == "cut_off" if reading.problem else ends_in_thought)


# -- how its calls are written


def _encoding_faults(answer: FailedAnswer) -> Iterator[Fault]:
    """Yield a fault for each API call with arguments that are not a JSON object, or are JSON encoded twice.

    Empty arguments are a fault if the expected call has some.
    """
    for name, arguments in _argument_texts(answer.response):
        is_wrong = bool(arguments.strip()) or "missing_argument" in answer.codes
        if is_wrong and (problem := arguments_problem(arguments)):
            # A stream that loses or repeats pieces keeps the arguments' beginning, and adds no text after their end
            # (the remark is None): `{"city"city": "Paris"}`
            code, message = problem
            if problem == ("bad_arguments", None) and arguments.startswith('{"') and "first_token_ms" in answer.columns:
                code = "bad_arguments.pieces"
            yield Fault(code=code, call=name, actual=arguments, message=message)


def _argument_texts(response: object) -> Iterator[tuple[str | None, str]]:
    """Yield the name (None if unreadable) and the arguments of each call that has its arguments as a text.

    Calls are written as `{"function": {"name": "f", "arguments": "{}"}}`, as `{"name": "f", "arguments": "{}"}`, or as
    `{"f": "{}"}`, the form of the leaderboard's results. In the first form, missing arguments count as "", like null.
    """
    listed = response if isinstance(response, list) else []

    for item in (item for item in listed if isinstance(item, dict)):
        function = item.get("function", item)
        if isinstance(function, dict) and ("arguments" in function or "function" in item):
            given = function.get("arguments")
            name, arguments = function.get("name"), ("" if given is None else given)
        else:
            # A single key of a call, as in `{"name": "f"}`, is no name of a function.
            is_leaderboard = len(item) == 1 and _WRAPPED.isdisjoint(item)
            name, arguments = next(iter(item.items())) if is_leaderboard else (None, None)

        if isinstance(arguments, str):
            yield name if isinstance(name, str) else None, arguments


def _encoded_twice(fault: Fault, tools: ToolDefinitions) -> bool:
    """Return True if a wrong argument is the JSON text of a value of the expected type: a list or an object.

    For example, the argument is `"[1, 2]"`, and the ground truth has `[1, 2]`.
    """
    if not isinstance(fault.actual, str) or not fault.code.startswith("wrong_argument"):
        return False

    expected_types = {type(value) for value in _accepted_values(fault)} & {list, dict}
    is_encoded = bool(expected_types) and type(value_of(fault.actual)) in expected_types
    return is_encoded and not _should_be_text(fault, tools)


_SIGNS_OF_GARBLING = frozenset('\\"&<?')
"""Without one of these characters, ASCII text is the same after the reversal of each error of encoding."""


def _is_garbled(fault: Fault) -> bool:
    """Return True if a wrong argument is the expected text after an error of encoding or escaping.

    For example `CafÃ©`, `Caf\\u00e9`, `Caf?`, `R&amp;D` or `Paris<|im_end|>`.
    """
    if isinstance(fault.actual, UnsetType) or isinstance(fault.expected, UnsetType):
        return False

    actual = text_or_json(fault.actual)
    expected = [text_or_json(value) for value in _accepted_values(fault) if type(value) is type(fault.actual)]
    # Most wrong arguments are plain text, which all steps below would leave unchanged.
    if actual.isascii() and _SIGNS_OF_GARBLING.isdisjoint(actual):
        return actual in expected

    from html import unescape  # imported here because it loads a table of all entity names

    # The argument after the reversal of each kind of error: HTML escapes, a token, JSON escapes, a wrong decoding.
    undone = [unescape(actual), _TOKEN.sub("", actual), value_of(f'"{actual}"'), value_of(actual)]
    for codec in ("latin-1", "cp1252"):
        with suppress(UnicodeError):
            undone.append(actual.encode(codec).decode())

    # A character that was lost for good has become `?` or U+FFFD.
    with_marks = actual.replace("\ufffd", "?")
    return any(text in undone or text.encode("ascii", "replace").decode() == with_marks for text in expected)


def _accepted_values(fault: Fault) -> Sequence[JSON]:
    """Return the values that a fault's ground truth accepts for the argument."""
    return fault.expected if fault.any_of and isinstance(fault.expected, list) else [fault.expected]


def _should_be_text(fault: Fault, tools: ToolDefinitions) -> bool:
    """Return True if the schema wants a text for a wrong argument, but the ground truth accepts no text.

    The ground truth then contradicts the schema, so the model is not to blame. An accepted "" is no text here: it says
    that the argument may be left out.
    """
    if any(isinstance(value, str) and value for value in _accepted_values(fault)):
        return False

    schema = _properties(fault.call or "", tools).get(fault.path or "")
    return isinstance(schema, dict) and schema.get("type") == "string"


def _properties(name: str, tools: ToolDefinitions) -> Mapping[str, JSON]:
    """Return the schemas of a tool's parameters, also for another spelling of its name; an empty mapping without it."""
    definition = next((tools.get(tool) for tool in tools if plain_name(tool) == plain_name(name)), None)
    return object_or_empty(definition.parameters.get("properties")) if definition is not None else {}


def _call_faults(answer: FailedAnswer) -> Iterator[Fault]:
    """Yield the causes in the calls of an answer with at least one: left in the text, misnamed, repeated, or extra."""
    any_name = "empty_turn" in answer.codes  # in a conversation, whose tools are those of its simulators
    calls = answer.reading.calls
    name = next((call.name for call in calls if any_name or answer.tools.spelled(call.name)), None)

    is_whole = "tool_calls" in answer.columns or not answer.columns  # not one step of a conversation
    # The text has a call, and an evaluator missed one.
    if name and answer.is_text and is_whole and answer.codes & _WITHOUT_CALL:
        yield Fault(code="call_left_in_text", call=name, message=f"its form is {answer.reading.format}")

    yield from islice(_name_faults(answer), 1)  # similarity search is slow, and one fault is enough
    yield from _wrapping_faults(answer)
    yield from _repetition_faults(answer)

    if answer.expects_text:
        yield Fault(code="extra_call", call=calls[0].name, actual=calls[0].arguments)


def _name_faults(answer: FailedAnswer) -> Iterator[Fault]:
    """Yield a fault for each called name that is not among the tools: another spelling, or an invented name.

    Other spellings count only if an evaluator found a fault of names. Without tools, there are no faults.
    """
    unknown = [*dict.fromkeys(call.name for call in answer.reading.calls if call.name not in answer.tools)]
    tools = {plain_name(tool): tool for tool in answer.tools} if unknown else {}

    for name in unknown if tools else ():
        tool = tools.get(plain_name(name))
        if tool is None:
            yield name_fault(name, answer.tools)
        elif answer.codes & _NAME_FAULTS:  # evaluators may accept this spelling
            change = "in another case" if name.casefold() == tool.casefold() else "dots and underscores are exchanged"
            yield Fault(code="unknown_function", call=name, expected=tool, message=f"{name} is {tool}: {change}")


def name_fault(name: str, tools: Collection[str]) -> Fault:
    """Return the fault of a called name that no tool has, with the tool that it probably means, if any.

    The code is the first that fits:

    1.  `decorated_name.token`: a tool's name with a token, as in `f<|channel|>commentary` or `<tool_call>f`
    2.  `decorated_name`: a tool's name with a prefix, a number or quotes, as in `functions.f:0`
    3.  `unknown_function`: any other name
    """
    for tool in tools:
        # Most of many tools are not part of the name: for those, no pattern is compiled.
        added = re.fullmatch(_DECORATED.format(re.escape(tool)), name) if tool and tool in name else None
        if added is not None:  # its groups are the texts before and after the tool's name
            code = "decorated_name.token" if "<" in f"{added[1]}{added[2]}" else "decorated_name"
            words = f"{name} is not among the tools; perhaps it is {tool} with added characters"
            return Fault(code=code, call=name, expected=tool, message=words)

    alike = get_close_matches(name, [*tools][:_MOST_COMPARED], n=1, cutoff=0.75) if len(name) <= _LONGEST_NAME else []
    words = f"{name} is not among the tools"
    message = f"{words}; perhaps {alike[0]} is meant" if alike else words
    return Fault(code="unknown_function", call=name, expected=alike[0] if alike else UNSET, message=message)


def _wrapping_faults(answer: FailedAnswer) -> Iterator[Fault]:
    """Yield a fault for each call whose arguments are a whole call, such as `{"arguments": {"city": "Paris"}}`.

    An argument that the tool or the ground truth has under such a name is no call.
    """
    expected = {key for call in answer.truth.calls for key in call.arguments}
    for call in (call for call in answer.reading.calls if call.arguments.keys() <= _WRAPPED):
        known = expected.union(_properties(call.name, answer.tools))
        inner = [key for key, value in call.arguments.items() if isinstance(value, dict) and key not in known]
        if len(inner) == 1:
            yield Fault(code="wrapped_arguments", call=call.name, path=inner[0], actual=call.arguments)


def _repetition_faults(answer: FailedAnswer) -> Iterator[Fault]:
    """Yield `doubled_call` for calls with equal ids, and `loop` for calls made too often.

    A loop is a call made at least three times, and more often than the ground truth names it. Two kinds of ids are
    ignored: those with the function's name (`functions.f:0`), which the model writes, and those of unequal calls.
    """
    copies = Counter((call.id, call.name, canonical(call.arguments)) for call in answer.reading.calls)
    different = Counter(call_id for call_id, _, _ in copies)
    for (call_id, name, _), times in copies.items():
        if times > 1 and call_id and name not in call_id and different[call_id] == 1:
            yield Fault(code="doubled_call", call=name, message=f"{times} equal calls have the id {call_id}")

    made = Counter((call.name, canonical(call.arguments)) for call in answer.reading.calls)
    expected = Counter(call.name for call in answer.truth.calls)
    for call in answer.reading.calls:
        times = made.pop((call.name, canonical(call.arguments)), 0)
        if times >= max(_CALLS_OF_LOOP, expected[call.name] + 1):
            words = f"{call.name} was called {times} times with the same arguments"
            yield Fault(code="loop", call=call.name, actual=call.arguments, message=words)


# -- what its text does


def _no_call_faults(answer: FailedAnswer) -> Iterator[Fault]:
    """Yield the causes of an answer without a call: a refusal, a question to the user, no text, or text instead."""
    text = answer.text.strip()
    refusal = answer.columns.get("refusal")
    # A refusal that ends in a question asks back. A refusal is right if the ground truth refuses, too.
    text_refuses = symptoms.refuses(text) and not symptoms.asks_back(text) and not symptoms.refuses(answer.truth.text)

    if refusal or text_refuses or answer.columns.get("finish_reason") == _REFUSED:
        yield Fault(code="refusal", actual=refusal if isinstance(refusal, str) else text)
    elif answer.expects_call and symptoms.asks_back(text):
        yield Fault(code="asked_back", actual=text)

    # Some servers write a missing text as the word `null` or `None`.
    if text in ("", "null", "None") and not refusal and (answer.expects_call or answer.expects_text):
        # Counted tokens without text suggest that the server's parsers dropped the text.
        written = object_or_empty(answer.columns.get("usage")).get("output_tokens")
        if isinstance(written, int) and written > _END_OF_TURN_TOKENS and not answer.has_reasoned:
            yield Fault(code="empty_answer.counted", message=f"the server counted {written} output tokens")
        else:
            yield Fault(code="empty_answer")
    elif answer.expects_call:
        call, arguments = next(((first.name, first.arguments) for first in answer.truth.calls), (None, UNSET))
        said = text if answer.is_text else UNSET
        yield Fault(code="answered_instead_of_calling", call=call, expected=arguments, actual=said)
