"""Whether an answer's calls are among the possible ones: `CallCheckEvaluator`."""

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias, get_args

from tunecheck import Evaluator, Metric, verdict
from tunecheck.calls import Reading, ToolDefinitions
from tunecheck.evaluators import MODES, AnyMode
from tunecheck.formats import AUTO, Profile, chosen, read_calls, tools_of
from tunecheck.plugins import JSON, Verdict, one_of
from tunecheck_bfcl._data.categories import is_bfcl
from tunecheck_bfcl._decoding import Names
from tunecheck_bfcl._single_turn import check_single_turn

_METRIC = "call_check"

Compat: TypeAlias = Literal["auto", "bfcl", "strict"]
"""How to judge: `bfcl` as the leaderboard does, `strict` without its gaps, `auto` the first for BFCL's own rows."""


class CallCheckEvaluator(Evaluator):
    """The calls of one answer against BFCL's possible answers, or against the wish for a call, or for none.

    1.0 where they are right, else 0.0 with the reason; `call_check_properties` holds `error_type`, the leaderboard's
    name of what is wrong. In the strict mode, a row that no answer could pass is not applicable. Rows of several turns
    are not applicable: they are `multi_turn_state`'s.

    Args:
        compat: "bfcl" gives the leaderboard's verdicts, quirks included; "strict" compares by type and assigns several
            calls optimally; "auto" is "bfcl" for BFCL's own rows, else "strict".
        mode: how the model was asked, "tools" or "text"; "auto" tells it from the answer.
        names: how the leaderboard expects functions with dots in their names: "dotted", "underscored", or "auto", as
            the row's calls spell them; strictly, either way is right.
        format: the profile of a model family by which text is read strictly, or its name; "auto" leaves it to `mode`.

    Raises:
        ConfigurationError: `compat`, `mode` or `names` is none of these.
        PluginError: there is no format of that name.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric(_METRIC, kind="binary"),)
    primary: ClassVar[str] = _METRIC
    cpu_bound: ClassVar[bool] = True

    def __init__(
        self, *, compat: Compat = "auto", mode: AnyMode = "auto", names: Names = "auto", format: str | Profile = AUTO
    ) -> None:
        self._compat = one_of(compat, get_args(Compat), "compat")
        self._mode = one_of(mode, MODES, "mode")
        self._names = one_of(names, get_args(Names), "names")
        self._profile = chosen(format)
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
            response: what the model answered: OpenAI tool calls, text, or what `read_calls` gave of it.
            result: the same as in BFCL's result files, `[{"f": "<arguments as JSON>"}, …]` or text; taken before
                `response` where there is one.
            functions: the function documents.
            tools: the same as OpenAI tools, for data that has no `functions`.
            ground_truth: the possible answers, `[{"f": {"a": [1, 2]}}, …]`; none where no call is compared.
            check: "simple", "multiple", "parallel", "irrelevance" or "relevance"; without one, it is taken from the
                number of possible answers.
            language: in which the arguments' values are written: "python", "java", "javascript".
            declared: the function documents with the types of that language, where `functions` has others.
            category: BFCL's, where it is one of its rows.
            error: what the conversation target says instead of a result.
        """
        if check == "multi_turn":
            return verdict(_METRIC, not_applicable=True, reason="a row of several turns")
        row = {
            "functions": tools if functions is None else functions,
            "declared": declared,
            "ground_truth": ground_truth,
            "check": check or _check_of(ground_truth),
            "language": language,
        }
        defined = tools_of(row["functions"])
        answer = _as_result(response, result, error, defined)
        if self._profile and isinstance(answer, str):
            answer = _as_entries(read_calls(answer, tools=defined, format=self._profile)) or answer
        mode = None if self._mode == "auto" else self._mode
        compat = self._compat == "bfcl" or (self._compat == "auto" and is_bfcl(category, check))
        return check_single_turn(row, answer, compat=compat, mode=mode, names=self._names).scored(_METRIC)


def _check_of(ground_truth: object) -> str:
    if not isinstance(ground_truth, list) or not ground_truth:
        return "irrelevance"
    return "simple" if len(ground_truth) == 1 else "parallel"


def _as_result(response: object, result: object, error: object, tools: ToolDefinitions) -> object:
    answer = (response if error is None else error) if result is None else result
    if isinstance(answer, Reading):  # the leaderboard counts calls of functions that were not on offer
        return _as_entries(answer) or _as_entries(read_calls(answer.text)) or answer.text
    if answer is not response or not isinstance(response, (list, dict)):
        return answer
    entries = _entries(response if isinstance(response, list) else [response])
    if entries is not None:
        return entries
    return _as_entries(read_calls(response, tools=tools)) or response


def _as_entries(reading: Reading) -> list[JSON]:
    return [{call.name: call.arguments} for call in reading.complete_calls]


def _entries(calls: list[JSON]) -> list[JSON] | None:
    """OpenAI tool calls as a result file has them, with their arguments as they came; None where they are none."""
    entries: list[JSON] = []
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            return None
        entries.append({str(function["name"]): function.get("arguments")})
    return entries
