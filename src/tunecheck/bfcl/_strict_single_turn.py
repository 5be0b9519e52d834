"""Rows of one question, strictly: none of the leaderboard's quirks, and rows that nobody could pass are not scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunecheck.bfcl._decoding import Mode
from tunecheck.bfcl._function_rules import Answer, Call, Rules, Signature
from tunecheck.bfcl._possible_answers import UnusableAnswerError
from tunecheck.bfcl._source.calls import source_calls
from tunecheck.bfcl._strict_answers import strict_value_fault
from tunecheck.bfcl._verdicts import Mismatch, Verdict, shown
from tunecheck.calls._formats.reading import read_calls
from tunecheck.calls._matching.assignment import assign
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._python_text import bind_positional
from tunecheck.conversations._decoding import decode_step
from tunecheck.conversations._text_calls import Decoded

ERROR_ROW = "Error during inference"
"""How the result of a row begins that the leaderboard's tool got no answer for."""


class StrictRules(Rules):
    """Names with `.` or `_`, values by type."""

    def arguments(self, call: Call, answer: Answer) -> Mapping[str, object] | Mismatch:
        """Those of the only call there is."""
        ((name, given),) = call.items()
        if _plain_name(name) != _plain_name(answer.name):
            return Mismatch("simple_function_checker:wrong_func_name", f"called {shown(name)}; expected {answer.name}")
        assert isinstance(given, Mapping)
        return given

    def value_fault(self, value: object, options: Sequence[object], schema: Mapping[str, object]) -> str | None:
        """By type; see `strict_answers`."""
        return strict_value_fault(value, options, schema, self.language)


def check_strictly(
    row: Mapping[str, object], documents: Mapping[str, object], answers: Sequence[Answer], result: object, mode: Mode
) -> Verdict:
    """The verdict of one row with its function documents and possible answers.

    Raises:
        UnusableAnswerError: nobody could pass this row; the text says why.
    """
    if result is None or (isinstance(result, str) and result.startswith(ERROR_ROW)):
        return Verdict(False, "inference_error", None, f"no answer was recorded: {shown(result)}")
    language = str(row.get("language") or "python")
    decoded = _decoded(result, mode, language)
    check = row.get("check")
    if check == "irrelevance":
        return _irrelevance(decoded, result)
    if check == "relevance":
        return _relevance(decoded, documents, result)
    if decoded.problem is not None:
        return Verdict(False, "ast_decoder:decoder_failed", None, f"no call can be read: {decoded.problem}")
    signatures = [_signature(answer, documents) for answer in answers]
    fault = _fault(decoded, answers, signatures, StrictRules(language, dots_as_underscores=True))
    return Verdict(True) if fault is None else fault.verdict()


def _decoded(result: object, mode: Mode, language: str) -> Decoded:
    if not isinstance(result, str):
        return decode_step([result] if isinstance(result, dict) else result)
    if language != "python":
        return source_calls(result)
    if mode == "text":
        return decode_step(result, text_mode=True)
    reading = read_calls(result)  # beside tools, a call may come as text in some model's own format
    return decode_step(result) if not reading.calls else decode_step(result, text_mode=True)


def _irrelevance(decoded: Decoded, result: object) -> Verdict:
    attempted = decoded.problem is not None and (not isinstance(result, str) or read_calls(result).problem is not None)
    if not decoded.calls and not attempted:
        return Verdict(True)
    text = f"called {shown([call.text() for call in decoded.calls] or result)}; no call was asked for"
    return Verdict(False, "irrelevance_error:decoder_success", None, text)


def _relevance(decoded: Decoded, documents: Mapping[str, object], result: object) -> Verdict:
    if not decoded.calls:
        return Verdict(False, "relevance_error:decoder_failed", None, f"no call in {shown(result)}; one was asked for")
    offered = {_plain_name(name) for name in documents}
    unknown = next((call.name for call in decoded.calls if _plain_name(call.name) not in offered), None)
    if unknown is None:
        return Verdict(True)
    return Verdict(
        False, "simple_function_checker:wrong_func_name", None, f"called {shown(unknown)}, which is not offered"
    )


def _fault(
    decoded: Decoded, answers: Sequence[Answer], signatures: Sequence[Signature], rules: Rules
) -> Mismatch | None:
    checker = "simple_function_checker" if len(answers) == 1 else "parallel_function_checker_no_order"
    if len(decoded.calls) != len(answers):
        return Mismatch(f"{checker}:wrong_count", f"{len(decoded.calls)} calls; expected {len(answers)}")
    calls = [FunctionCall(call.name, dict(call.arguments)) for call in decoded.calls]  # type: ignore[arg-type]
    faults = [
        [rules.fault(_bound(call, signature), answer, signature) for call in calls]
        for answer, signature in zip(answers, signatures, strict=True)
    ]
    if len(answers) == 1:
        return faults[0][0]
    pairs = assign([[fault is not None for fault in line] for line in faults])
    wrong = [(answers[row], fault) for row, column in pairs if (fault := faults[row][column]) is not None]
    if not wrong:
        return None
    reasons = "; ".join(f"{answer.name}: {fault.message}" for answer, fault in wrong)
    return Mismatch(f"{checker}:cannot_find_match", reasons[:1_000])


def _bound(call: FunctionCall, signature: Signature) -> Call:
    """The call with its positional arguments under their names."""
    return {call.name: bind_positional(call, [str(name) for name in signature.properties]).arguments}


def _signature(answer: Answer, documents: Mapping[str, object]) -> Signature:
    """The signature of the answer's function, once it is clear that some call of it can pass."""
    signature = Signature.read(_whole(documents.get(answer.name)))
    for name in signature.required_names():
        if name not in answer.arguments:
            raise UnusableAnswerError(f"the required argument {shown(name)} of {answer.name} has no possible value")
    for name, options in answer.arguments.items():
        optional = isinstance(options, list) and "" in options and name not in signature.required
        if not options:
            raise UnusableAnswerError(f"the argument {shown(name)} of {answer.name} has no possible value")
        if name not in signature.properties and not optional:
            raise UnusableAnswerError(f"{answer.name} has no parameter {shown(name)}, which the answer asks for")
    return signature


def _whole(document: object) -> object:
    """A document with all the parts that JSON Schema lets it leave out."""
    if not isinstance(document, dict):
        return document
    parameters = document.get("parameters")
    given = {name: value for name, value in parameters.items() if value is not None} if parameters else {}
    return {**document, "parameters": {"properties": {}, "required": [], **given}}


def _plain_name(name: str) -> str:
    return name.replace(".", "_")
