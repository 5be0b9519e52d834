"""Rows of one question: is what the model called among the possible answers?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunecheck.bfcl._call_text import UndecodableError
from tunecheck.bfcl._decoding import Mode, as_calls, decode_answer, mode_of
from tunecheck.bfcl._function_rules import Answer, Call, LeaderboardRules, Rules, Signature
from tunecheck.bfcl._possible_answers import UnusableAnswerError
from tunecheck.bfcl._strict_single_turn import check_strictly
from tunecheck.bfcl._verdicts import INVALID_ENTRY, Mismatch, Verdict, shown

_PASSED = Verdict(True)


def check_single_turn(row: Mapping[str, object], result: object, *, compat: bool, mode: Mode | None = None) -> Verdict:
    """The verdict of one row.

    Args:
        row: the columns `check` ("simple", "multiple", "parallel", "irrelevance", "relevance"), `language`,
            `functions` (function documents; `declared` instead, where it is there) and `ground_truth`, the possible
            answers, as a data set `bfcl:…` has them.
        result: as in a result file: `[{"f": "<arguments as JSON>"}, …]`, or text.
        compat: judge exactly as the leaderboard does, error types included; else strictly.
        mode: how the model was asked, where the result alone does not say: calls in the text of a model that was given
            tools are no calls to the leaderboard.
    """
    mode = mode or mode_of([result])
    try:
        return _as_leaderboard(row, result, mode) if compat else _strictly(row, result, mode)
    except RecursionError:
        return Verdict(False, "ast_decoder:decoder_failed", None, "the result is nested too deeply")


def _as_leaderboard(row: Mapping[str, object], result: object, mode: Mode) -> Verdict:
    check = row.get("check")
    language = str(row.get("language") or "python")
    if check in ("irrelevance", "relevance"):
        return _abstention(result, mode, language, calls_wanted=check == "relevance")
    try:
        decoded = decode_answer(result, mode, language)
    except UndecodableError as error:
        return Verdict(False, "ast_decoder:decoder_failed", None, f"the result cannot be decoded: {error}")
    calls = as_calls(decoded)
    if calls is None:
        return Verdict(False, "ast_decoder:decoder_wrong_output_format", None, f"no list of calls: {shown(decoded)}")
    rules = LeaderboardRules(language, dots_as_underscores=mode == "tools")
    try:
        fault = _fault(check, calls, row, rules)
    except UnusableAnswerError as error:
        return Verdict(False, "checker_crash", None, f"the leaderboard's checker fails on this row: {error}")
    return _PASSED if fault is None else fault.verdict()


def _strictly(row: Mapping[str, object], result: object, mode: Mode) -> Verdict:
    try:
        answers = [] if row.get("check") in ("irrelevance", "relevance") else answers_of(row)
        return check_strictly(row, documents_of(row), answers, result, mode)
    except UnusableAnswerError as error:
        return Verdict(None, INVALID_ENTRY, None, f"nobody can pass this row: {error}")


def _abstention(result: object, mode: Mode, language: str, *, calls_wanted: bool) -> Verdict:
    try:
        decoded = decode_answer(result, mode, language)
    except UndecodableError:
        decoded = []
    called = bool(as_calls(decoded))
    if called == calls_wanted:
        return _PASSED
    if called:
        return Verdict(
            False, "irrelevance_error:decoder_success", None, f"called {shown(decoded)}; no call was asked for"
        )
    return Verdict(False, "relevance_error:decoder_failed", None, f"no call in {shown(result)}; one was asked for")


def _fault(check: object, calls: Sequence[Call], row: Mapping[str, object], rules: Rules) -> Mismatch | None:
    documents = documents_of(row)
    answers = answers_of(row)
    if check == "parallel":
        return _unordered_fault(calls, answers, documents, rules)
    checker, expected = ("multiple", len(answers)) if check == "multiple" else ("simple", 1)
    if len(calls) != expected:
        return Mismatch(f"{checker}_function_checker:wrong_count", f"{len(calls)} calls; expected {expected}")
    document = documents.get(answers[0].name) if check == "multiple" else next(iter(documents.values()), None)
    return rules.fault(calls[0], answers[0], Signature.read(document))


def _unordered_fault(
    calls: Sequence[Call], answers: Sequence[Answer], documents: Mapping[str, object], rules: Rules
) -> Mismatch | None:
    """Each answer takes the first call that fits and is still free; nothing is taken back."""
    if len(calls) != len(answers):
        text = f"{len(calls)} calls; expected {len(answers)}"
        return Mismatch("parallel_function_checker_no_order:wrong_count", text)
    free = list(range(len(calls)))
    for answer in answers:
        signature = Signature.read(documents.get(answer.name))
        faults = [(place, rules.fault(calls[place], answer, signature)) for place in free]
        fitting = next((place for place, fault in faults if fault is None), None)
        if fitting is None:
            reasons = "; ".join(fault.message for _, fault in faults if fault)
            text = f"no call is the expected one of {answer.name}: {reasons}"
            return Mismatch("parallel_function_checker_no_order:cannot_find_match", text[:1_000])
        free.remove(fitting)
    return None


def documents_of(row: Mapping[str, object]) -> dict[str, object]:
    """The function documents by name, those with the declared types where the row has them; OpenAI tools are such."""
    given = row.get("declared") or row.get("functions") or []
    if not isinstance(given, list):
        raise UnusableAnswerError("the functions are no list")
    tools = [document for document in given if isinstance(document, dict)]
    documents = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in tools]
    return {str(document.get("name")): document for document in documents}


def answers_of(row: Mapping[str, object]) -> list[Answer]:
    """The calls of the ground truth."""
    truth = row.get("ground_truth")
    if not isinstance(truth, list) or not truth:
        raise UnusableAnswerError("there is no ground truth")
    return [Answer.read(answer) for answer in truth]
