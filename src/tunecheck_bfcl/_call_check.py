"""Verdicts on rows with one question: `CallCheckEvaluator` compares the model's calls with the possible answers.

With `compat`, verdicts are exactly the leaderboard's. In the strict mode, its quirks do not apply, and rows that no
answer can pass are not scored.

The column `check` says what is right:

  simple, multiple   one call, of the expected function
  parallel           the expected calls in any order
  irrelevance        no call
  relevance          any call; in the strict mode, of an offered function

The two modes differ in these points:

                          leaderboard                              strict
  unreadable answer       no call (irrelevance), else wrong        an attempted call is wrong
  text of a tools model   has no calls                             its calls count
  several calls           each answer takes the first fitting one  the best assignment
  values                  `_leaderboard_answers.py`                `_STRICT`: by type, 1 equals 1.0
  Java, JavaScript        patterns for parts of the languages      parsed source code
  no answer can pass      wrong, or "checker_crash"                not scored

Example: for the question "weather in Rome and Paris", the check parallel and the possible answers
`[{"weather": {"city": ["Rome"]}}, {"weather": {"city": ["Paris"]}}]`, both orders of the two calls pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias, cast, get_args

from tunecheck import Evaluator, Metric, verdict
from tunecheck.calls import FunctionCall, Reading, ToolDefinitions, tool_name
from tunecheck.calls.matching import MatchPolicy, argument_faults, call_faults, match_calls
from tunecheck.episodes import (
    INVALID_ENTRY,
    CallMode,
    RowVerdict,
    answer_step,
    decode_step,
    mode_of,
    source_text,
    value_text,
)
from tunecheck.evaluators import MODES, AnyMode
from tunecheck.formats import AUTO, Profile, choose_profile, read_calls, tools_of
from tunecheck.plugins import JSON, Verdict, one_of, sentence
from tunecheck_bfcl._data.files import is_bfcl
from tunecheck_bfcl._decoding import Names, UndecodableError, as_calls, decode_answer
from tunecheck_bfcl._leaderboard_answers import (
    Call,
    CallSignature,
    LeaderboardRules,
    UnusableAnswerError,
    expected_call,
)
from tunecheck_bfcl._source_calls import source_calls, source_value
from tunecheck_bfcl._summary import failed_row

Columns: TypeAlias = Mapping[str, object]
"""The columns of a row."""

_PASSED = RowVerdict(True)

_ERROR_RESULT = "Error during inference"  # what the leaderboard's tool writes without an answer
_ABSTAINING = ("irrelevance", "relevance")

# Possible values are alternatives. Case, white space and a.b or a_b do not count; 1 and 1.0 are equal.
_STRICT = MatchPolicy(
    alternatives=True, dots_equal_underscores=True, ignore_case=True, ignore_whitespace=True, int_equals_float=True
)


def check_single_turn(
    row: Columns, result: object, *, compat: bool, mode: CallMode | None = None, names: Names = "auto"
) -> RowVerdict:
    """Return the verdict on one row.

    Args:
        row: the columns of a row of `bfcl:…`: `check` ("simple", "multiple", "parallel", "irrelevance", "relevance"),
            `language`, `functions` (function documents; `declared` is used instead if the row has it) and
            `ground_truth` (the possible answers).
        result: the result as in a result file: `[{"f": "<arguments as JSON>"}, …]`, or text.
        compat: judge exactly as the leaderboard does, including error types; otherwise judge strictly.
        mode: how the model was asked, "tools" or "text"; None to infer it from the result. If a model was given tools,
            the leaderboard does not count calls in the model's text.
        names: how the leaderboard expects functions with dots in their names. "auto" uses the spelling of the first
            call to such a function. In the strict mode, both spellings are right.
    """
    mode = mode or mode_of(result)
    try:
        return _leaderboard_verdict(row, result, mode, names) if compat else _strict_verdict(row, result, mode)
    except RecursionError:
        return failed_row("ast_decoder:decoder_failed", "the result is nested too deeply")


def _leaderboard_verdict(row: Columns, result: object, mode: CallMode, names: Names) -> RowVerdict:
    """Return the verdict on a row as the leaderboard gives it, with the leaderboard's error type."""
    check, language = row.get("check"), _language(row)

    decoded: list[object] = []
    problem = None
    try:
        decoded = decode_answer(result, mode, language)
    except UndecodableError as error:
        problem = f"the result cannot be decoded: {error}"

    calls = as_calls(decoded)
    if check in _ABSTAINING:  # an undecodable result counts as no call
        return _abstention_verdict(calls or (), result, calls_wanted=check == "relevance")
    if problem is not None:
        return failed_row("ast_decoder:decoder_failed", problem)
    if calls is None:
        return failed_row("ast_decoder:decoder_wrong_output_format", f"not a list of calls: {value_text(decoded)}")

    try:
        rules = LeaderboardRules(language, dotted=_expects_dots(names, mode, calls, _documents(row)))
        return _failure(check, calls, row, rules) or _PASSED
    except UnusableAnswerError as error:
        return failed_row("checker_crash", f"the leaderboard's checker crashes on this row: {error}")


def _expects_dots(names: Names, mode: CallMode, calls: Sequence[Call], function_names: Iterable[str]) -> bool:
    """Return whether functions with dots in their names must be called with dots rather than with underscores.

    `names` "auto" takes the spelling of the first call to such a function. Without such a call, text mode expects dots.
    """
    if names != "auto":
        return names == "dotted"

    with_dots = [name for name in function_names if "." in name]
    # For a function a.b: {"a_b": False, "a.b": True}.
    has_dots = {tool_name(name): False for name in with_dots} | dict.fromkeys(with_dots, True)

    return next((has_dots[name] for call in calls for name in call if name in has_dots), mode == "text")


def _language(row: Columns) -> str:
    """Return the language of a row. An unknown language counts as JavaScript, as on the leaderboard."""
    language = row.get("language") or "python"
    return str(language) if language in ("python", "java") else "javascript"


def _abstention_verdict(calls: Sequence[object], result: object, *, calls_wanted: bool) -> RowVerdict:
    """Return the verdict on a row that only asks whether the model calls a function or abstains."""
    if bool(calls) == calls_wanted:
        return _PASSED
    if calls:
        return failed_row("irrelevance_error:decoder_success", f"called {value_text(calls)}; the row asks for no call")
    return failed_row("relevance_error:decoder_failed", f"no call in {value_text(result)}; the row asks for one")


def _failure(check: object, calls: Sequence[Call], row: Columns, rules: LeaderboardRules) -> RowVerdict | None:
    """Return the verdict on calls that differ from the possible answers, or None if they are right.

    "simple" rows take the row's first function document (BFCL's rows have one); other rows find the document by the
    expected function's name.
    """
    documents = _documents(row)
    answers = _expected_calls(row)
    if check == "parallel":
        return _unordered_failure(calls, answers, documents, rules)

    # A row of "multiple" has one possible answer; the leaderboard compares only the first in any case.
    checker, expected = ("multiple", len(answers)) if check == "multiple" else ("simple", 1)
    if len(calls) != expected:
        return failed_row(f"{checker}_function_checker:wrong_count", f"{len(calls)} calls; expected {expected}")

    document = documents.get(answers[0].name) if check == "multiple" else next(iter(documents.values()), None)
    return rules.failure(calls[0], answers[0], CallSignature.read(document, answers[0].name))


def _unordered_failure(
    calls: Sequence[Call], answers: Sequence[FunctionCall], documents: Mapping[str, object], rules: LeaderboardRules
) -> RowVerdict | None:
    """Return the verdict if the calls of a "parallel" row are wrong, or None if they are right in any order.

    Each answer takes the first unmatched call that fits, without backtracking, as on the leaderboard.
    """
    if len(calls) != len(answers):
        text = f"{len(calls)} calls; expected {len(answers)}"
        return failed_row("parallel_function_checker_no_order:wrong_count", text)

    # Positions of the calls that no answer has taken yet.
    free = list(range(len(calls)))
    for answer in answers:
        signature = CallSignature.read(documents.get(answer.name), answer.name)
        failures = [(position, rules.failure(calls[position], answer, signature)) for position in free]

        fitting = next((position for position, failure in failures if failure is None), None)
        if fitting is None:
            reasons = "; ".join(str(failure.message) for _, failure in failures if failure)
            text = f"no call matches the expected call of {answer.name}: {reasons}"
            return failed_row("parallel_function_checker_no_order:cannot_find_match", text[:1_000])

        free.remove(fitting)
    return None


def _documents(row: Columns) -> dict[str, object]:
    """Return the row's function documents by name. `declared` takes precedence over `functions`.

    An item of both lists may also be an OpenAI tool.

    Raises:
        UnusableAnswerError: the functions are not a list.
    """
    listed = row.get("declared") or row.get("functions") or []
    if not isinstance(listed, list):
        raise UnusableAnswerError(f"`functions`, `declared` or `tools` must be a list, not {value_text(listed, 60)}")

    # An OpenAI tool has the document under `function`.
    tools = [document for document in listed if isinstance(document, dict)]
    documents = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in tools]
    return {str(document.get("name")): document for document in documents}


def _expected_calls(row: Columns) -> list[FunctionCall]:
    """Return the calls of the row's ground truth.

    Raises:
        UnusableAnswerError: there is no ground truth, or it has another form.
    """
    truth = row.get("ground_truth")
    if not isinstance(truth, list) or not truth:
        raise UnusableAnswerError(f"`ground_truth` must be a list of expected calls, not {value_text(truth, 60)}")
    return [expected_call(answer) for answer in truth]


def _strict_verdict(row: Columns, result: object, mode: CallMode) -> RowVerdict:
    """Return the verdict on a row without the leaderboard's quirks. A row that no answer can pass is not scored."""
    check, language = row.get("check"), _language(row)
    try:
        # The row itself is checked first: an unusable row is not scored, even without an answer.
        answers = [] if check in _ABSTAINING else _expected_calls(row)
        documents = _documents(row)
        if result is None or (isinstance(result, str) and result.startswith(_ERROR_RESULT)):
            return failed_row("inference_error", f"no answer was recorded: {value_text(result)}")

        decoded = _decode(result, mode, language, tools_of([*documents.values()]))

        if check in _ABSTAINING:
            return _strict_abstention(check, decoded, documents, result)

        if decoded.problem is not None:
            return failed_row("ast_decoder:decoder_failed", f"no call can be read: {decoded.problem}")

        # After decoding, because an unreadable answer fails even if no answer can pass.
        for answer in answers:
            _check_passable(answer, documents)
        return _strict_failure(decoded, answers, documents, language) or _PASSED
    except UnusableAnswerError as error:
        return RowVerdict(None, INVALID_ENTRY, message=f"not scored, because no answer can pass this row: {error}")


def _decode(result: object, mode: CallMode, language: str, tools: ToolDefinitions) -> Reading:
    """Return the calls of a result: data, source code of Java or JavaScript, or Python calls as text.

    A model that was given tools may still have written its calls as text. Such calls count, too.
    """
    if not isinstance(result, str):
        return decode_step([result] if isinstance(result, dict) else result)
    # Java and JavaScript values are compared as parsed source code, so the arguments stay text here.
    if language != "python":
        return source_calls(result, language)
    has_calls_as_text = mode == "text" or bool(read_calls(result, tools=tools).complete_calls)
    return decode_step(result, text_mode=True, tools=tools) if has_calls_as_text else decode_step(result)


def _strict_abstention(check: object, decoded: Reading, documents: Mapping[str, object], result: object) -> RowVerdict:
    """Return the verdict on a row for which no call is right, or for "relevance" a call of any offered function.

    An unreadable attempt counts as a call in a row for which no call is right.
    """
    called: list[object] = [source_text(call) for call in decoded.calls]
    if check == "irrelevance" and decoded.problem is not None and not called:
        # Decoding finds a problem in any text without calls; `read_calls` finds one only if the text announces a call.
        tools = tools_of([*documents.values()])
        if not isinstance(result, str) or read_calls(result, tools=tools).problem is not None:
            called = [result]

    offered = {tool_name(name) for name in documents}
    unknown = next((call.name for call in decoded.calls if tool_name(call.name) not in offered), None)
    if check == "relevance" and unknown is not None:
        text = f"called {value_text(unknown)}, which is not offered"
        return failed_row("simple_function_checker:wrong_func_name", text)
    return _abstention_verdict(called, result, calls_wanted=check == "relevance")


def _strict_failure(
    decoded: Reading, answers: Sequence[FunctionCall], documents: Mapping[str, object], language: str
) -> RowVerdict | None:
    """Return the verdict if calls differ from the expected calls, or None if they are right in any order."""
    # Documents of other languages declare Java's or JavaScript's types, so they are not used.
    if language == "python":
        match = match_calls(decoded.calls, answers, _STRICT, tools_of([*documents.values()]))
    else:
        calls = [_with_source_values(call, answers, language) for call in decoded.calls]
        match = match_calls(calls, answers, _STRICT)

    faults = [*call_faults(match, _STRICT), *argument_faults(match)]
    if not faults:
        return None
    return RowVerdict(False, faults[0].code, message=sentence(faults), details=tuple(faults))


def _with_source_values(call: FunctionCall, answers: Sequence[FunctionCall], language: str) -> FunctionCall:
    """Return a Java or JavaScript call with its text values parsed as source code: "new int[]{1, 2}" becomes [1, 2].

    A text that is itself a possible value stays text.
    """
    # Some possible answers of BFCL are source code themselves.
    lists = [options for answer in answers for options in answer.arguments.values() if isinstance(options, list)]
    texts = {option for options in lists for option in options if isinstance(option, str)}

    read: dict[str, JSON] = {}
    for name, value in call.arguments.items():
        is_source = isinstance(value, str) and value not in texts
        read[name] = cast("JSON", source_value(str(value), language)) if is_source else value
    return FunctionCall(call.name, read)


def _check_passable(answer: FunctionCall, documents: Mapping[str, object]) -> None:
    """Raise UnusableAnswerError if no call of the expected function can pass."""
    signature = CallSignature.read(documents.get(answer.name), answer.name, lenient=True)

    # A call must have every required argument, and an argument without a possible value is always wrong.
    for name in signature.required:
        if name not in answer.arguments:
            raise UnusableAnswerError(f"`ground_truth` lacks the required argument {value_text(name)} of {answer.name}")

    for name, options in answer.arguments.items():
        optional = isinstance(options, list) and "" in options and name not in signature.required
        if not options:
            raise UnusableAnswerError(f"`ground_truth` has no value for argument {value_text(name)} of {answer.name}")
        if name not in signature.properties and not optional:
            raise UnusableAnswerError(f"`ground_truth` sets argument {value_text(name)}, which {answer.name} lacks")


_METRIC = "call_check"

Compat: TypeAlias = Literal["auto", "bfcl", "strict"]
"""How to judge: `bfcl` as the leaderboard does, `strict` without its quirks, `auto` as `bfcl` for BFCL's rows only."""


class CallCheckEvaluator(Evaluator):
    """Compares the calls of one answer with BFCL's possible answers, or checks that a call is or is not made.

    The score is 1.0 if the calls are right, else 0.0 with the reason. `call_check_properties` contains `error_type`,
    the leaderboard's name for the error. In the strict mode, the metric is not applicable to a row that no answer can
    pass. It is also not applicable to rows of several turns, which `multi_turn_state` judges.

    Args:
        compat: "bfcl" gives the leaderboard's verdicts with all quirks; "strict" compares by type and assigns several
            calls optimally; "auto" is "bfcl" for BFCL's own rows, else "strict".
        mode: how the model was asked, "tools" or "text"; "auto" infers it from the answer.
        names: how the leaderboard expects functions with dots in their names: "dotted", "underscored", or "auto" for
            the spelling of the row's calls. In the strict mode, both spellings are right.
        format: the profile of a model family (or the profile's name) with which text is read; with "auto", `mode`
            decides.

    Raises:
        ConfigurationError: `compat`, `mode` or `names` has another value.
        PluginError: there is no format of that name.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric(_METRIC, kind="binary"),)
    primary: ClassVar[str] = _METRIC
    cpu_bound: ClassVar[bool] = True

    def __init__(
        self, *, compat: Compat = "auto", mode: AnyMode = "auto", names: Names = "auto", format: str | Profile = AUTO
    ) -> None:
        """Check the arguments. The format is part of the evaluator's arguments only if it is chosen, not `auto`."""
        self._compat = one_of(compat, get_args(Compat), "compat")
        self._mode = one_of(mode, MODES, "mode")
        self._names = one_of(names, get_args(Names), "names")
        self._profile = choose_profile(format)
        format_name = {"format": self._profile.name} if self._profile else {}
        super().__init__(compat=compat, mode=mode, names=names, **format_name)

    def __call__(
        self,
        *,
        response: object = None,
        result: object = None,
        functions: object = None,
        tools: object = None,
        ground_truth: object = None,
        check: object = None,
        language: object = None,
        declared: object = None,
        category: object = None,
        error: object = None,
    ) -> Verdict:
        """Judge one row.

        Args:
            response: the model's answer: OpenAI tool calls, text, or a `Reading` from `read_calls`.
            result: the answer in the form of BFCL's result files, `[{"f": "<arguments as JSON>"}, …]` or text. It takes
                precedence over `response`.
            functions: the function documents.
            tools: the functions as OpenAI tools, for data without `functions`.
            ground_truth: the possible answers, `[{"f": {"a": [1, 2]}}, …]`; empty if calls are not compared.
            check: "simple", "multiple", "parallel", "irrelevance" or "relevance"; by default inferred from the number
                of possible answers.
            language: the language of the arguments' values: "python", "java" or "javascript".
            declared: the function documents with that language's types, if `functions` has other types.
            category: BFCL's category, if the row is one of BFCL's.
            error: the conversation target's error, which counts as the answer if there is no `result`.
        """
        if check == "multi_turn":
            return verdict(_METRIC, not_applicable=True, reason="the row has several turns")

        # OpenAI tools stand for documents in rows that are not BFCL's.
        row = {
            "functions": tools if functions is None else functions,
            "declared": declared,
            "ground_truth": ground_truth,
            "check": check or _default_check(ground_truth),
            "language": language,
        }

        defined = tools_of(row["functions"])
        answer = _in_result_form(response, result, error, defined)
        # A chosen format reads the text first; without a call in it, the text is judged as it is.
        if self._profile and isinstance(answer, str):
            answer = _reading_entries(read_calls(answer, tools=defined, format=self._profile)) or answer

        mode = None if self._mode == "auto" else self._mode
        compat = self._compat == "bfcl" or (self._compat == "auto" and is_bfcl(category, check))
        return check_single_turn(row, answer, compat=compat, mode=mode, names=self._names).scored(_METRIC)


def _default_check(ground_truth: object) -> str:
    """Return the check for a row without one: "irrelevance" without possible answers, otherwise by their number."""
    if not isinstance(ground_truth, list) or not ground_truth:
        return "irrelevance"
    return "simple" if len(ground_truth) == 1 else "parallel"


def _in_result_form(response: object, result: object, error: object, tools: ToolDefinitions) -> object:
    """Return an answer in the form of a result file: entries for calls, otherwise the answer unchanged.

    `result` takes precedence over `error`, and `error` over `response`.
    """
    answer = next((value for value in (result, error) if value is not None), response)

    if isinstance(answer, Reading):  # the leaderboard also counts calls of functions that were not offered
        return _reading_entries(answer) or _reading_entries(read_calls(answer.text)) or answer.text
    if answer is not response or not isinstance(response, (list, dict)):  # recorded results have this form already
        return answer

    calls = response if isinstance(response, list) else [response]
    step = answer_step(None, calls, keep_nothing=True) if all(isinstance(call, dict) for call in calls) else None
    if isinstance(step, list):  # OpenAI tool calls
        return step
    return _reading_entries(read_calls(response, tools=tools)) or response


def _reading_entries(reading: Reading) -> list[JSON]:
    """Return the complete calls in the form of a result file, `[{"f": {"a": 1}}, …]`."""
    return [{call.name: call.arguments} for call in reading.complete_calls]
