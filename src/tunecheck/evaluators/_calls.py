"""The evaluators of function calls: right functions, right arguments, and both in one verdict.

They read response and ground truth, match their calls, and report differences as faults. The verdicts:

| response           | ground truth | function_call_match | argument_match              | match             |
|--------------------|--------------|---------------------|-----------------------------|-------------------|
| an unreadable call | any          | fails               | fails                       | fails             |
| calls              | calls        | by the functions    | by functions and arguments  | as argument_match |
| calls              | an answer    | fails               | fails                       | fails             |
| an answer          | calls        | fails               | fails                       | fails             |
| an answer          | an answer    | passes              | not applicable              | by ROUGE-L        |

A ground truth with an unreadable call is an error of the data (ValueError), not a verdict.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from tunecheck import _json as jsontext
from tunecheck._errors import ConfigurationError
from tunecheck._faults import Fault, Verdict, verdict
from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.calls.matching import KINDS, Match, MatchPolicy, argument_faults, call_faults, match_calls, schema_faults
from tunecheck.evaluators._base import Evaluator, Metric
from tunecheck.formats import AUTO, Profile, cached_per_row, cached_reading, cached_tools, choose_profile, read_calls
from tunecheck.formats._reading import text_of

_MOST_DATA_SHOWN = 200  # characters of a ground truth in an error


@dataclass(frozen=True)
class CallComparison:
    """The readings of response and ground truth, and the match of their calls. A row's evaluators share it."""

    policy: MatchPolicy
    response: Reading
    ground_truth: Reading
    match: Match

    @property
    def expects_call(self) -> bool:
        """True if the ground truth is a call (otherwise an answer)."""
        return bool(self.ground_truth.calls)

    @property
    def has_call(self) -> bool:
        """True if the response contains a call, even a call that cannot be read."""
        return bool(self.response.calls) or self.response.problem is not None

    @cached_property
    def functions_match(self) -> bool:
        """True if the right functions were called, with the order and extra calls that the policy allows.

        False if the response contains an unreadable call or, with `validate_schema`, a function without a definition.
        """
        if self.has_call != self.expects_call or self.response.problem is not None:
            return False
        # The match counts expected calls without a partner as incomplete; extra calls are a matter of the policy.
        if self.match.extra and not self.policy.allow_extra_calls:
            return False
        return self.match.complete and not (self.policy.validate_schema and self.match.unknown)

    @cached_property
    def arguments_match(self) -> bool:
        """True if the right functions were called with the right arguments.

        False if a call violates its schema and `validate_schema` is set.
        """
        if self.policy.validate_schema and self.match.violations:
            return False
        return self.functions_match and self.match.arguments_right

    @cached_property
    def function_faults(self) -> list[Fault]:
        """The faults of the calls, without those of their arguments. If calls cannot be compared, only the reason."""
        return self._faults(())

    @cached_property
    def faults(self) -> list[Fault]:
        """The faults of the calls and their arguments. If calls cannot be compared, only the reason."""
        return self._faults(argument_faults(self.match))

    def _faults(self, of_arguments: Iterable[Fault]) -> list[Fault]:
        """Return the faults that prevent a comparison, else the faults of the calls and these faults of arguments.

        Calls cannot be compared if only one side has a call, or if the response's call is unreadable. With
        `validate_schema`, the faults of schemas follow those of arguments.
        """
        # An unreadable call is the fault itself: its differences are unknown.
        if self.response.problem is not None:
            message = f"the response's call cannot be read: {self.response.problem}"
            return [Fault(code="unreadable_call", message=message)]

        if self.has_call and not self.expects_call:
            return [
                Fault(code="called_instead_of_answering", call=call.name, actual=call.arguments)
                for call in self.response.calls
            ]

        if self.expects_call and not self.has_call:
            any_of = self.policy.alternatives
            return [
                Fault(code="answered_instead_of_calling", call=call.name, expected=call.arguments, any_of=any_of)
                for call in self.ground_truth.calls
            ]

        of_schemas = schema_faults(self.match) if self.policy.validate_schema else ()
        return [*call_faults(self.match, self.policy), *of_arguments, *of_schemas]


def compare_calls(
    response: object, ground_truth: object, tool_definitions: object, policy: MatchPolicy, format: str | Profile
) -> CallComparison:
    """Read the calls of a row's response (in this format) and ground truth (in any format), and match them.

    Raises:
        ValueError: the ground truth or the tool definitions cannot be read.
    """
    definitions = cached_tools(_value_or_none(tool_definitions))
    actual = read_response(response, definitions, format)
    expected = _read_ground_truth(ground_truth, definitions, alternatives=policy.alternatives)
    # The calls before an unreadable one are not matched, because the row fails anyway.
    match = match_calls(actual.complete_calls, expected.calls, policy, definitions)
    return CallComparison(policy, actual, expected, match)


def read_response(value: object, tools: ToolDefinitions | None = None, format: str | Profile = AUTO) -> Reading:
    """Read the calls of a value in this format, or in any format if it is "auto".

    A single object `{"f": {…}}` is read as a call in both cases, but only if the row has no tool definitions.
    """
    value = _value_or_none(value)
    reading = cached_reading(value, tools) if format == AUTO else read_calls(value, tools=tools, format=format)

    is_data = not reading.calls and not reading.problem
    if not tools and is_data and isinstance(value, dict) and _is_single_call(value):
        # `{"f": {…}}` is BFCL's form without the list. With tools, their names decide, and it may be any JSON answer.
        return read_calls([value])
    return reading


def _read_ground_truth(value: object, tools: ToolDefinitions, *, alternatives: bool) -> Reading:
    """Read the expected calls or the expected answer in any format.

    With `alternatives`, BFCL's possible answers are read too: each argument is a list of its accepted values.

    Raises:
        ValueError: a call cannot be read, or the value is JSON data without a call.
    """
    value = _value_or_none(value)
    # The lists of possible answers are accepted values, so they are not read as arguments.
    if alternatives and (answers := possible_answers(jsontext.value_of(value) if isinstance(value, str) else value)):
        return Reading(calls=answers, format="bfcl")

    reading = read_response(value, tools)

    if reading.problem is not None:
        raise ValueError(f"the ground truth's call cannot be read: {reading.problem}; correct the data")
    # Nothing in the data was read as a call or an answer if the text is the JSON of the whole value.
    if isinstance(value, (dict, list)) and value and not reading.calls and reading.text == text_of(value):
        raise ValueError(f"the ground truth must be calls or text, not other JSON: {reading.text[:_MOST_DATA_SHOWN]}")
    return reading


def possible_answers(value: object) -> tuple[FunctionCall, ...]:
    """Read calls from `[{"f": {…}}, …]` or from one such object, without checking the arguments.

    Return an empty tuple if the value or one of its items has another form.
    """
    items = value if isinstance(value, list) else [value]
    # The only key of an item is the function's name, and its value the arguments.
    calls = [
        FunctionCall(*next(iter(item.items()))) for item in items if isinstance(item, dict) and _is_single_call(item)
    ]
    return tuple(calls) if len(calls) == len(items) else ()


def _is_single_call(value: dict[str, JSON]) -> bool:
    """Return whether an object is like `{"f": {…}}`: one key with an object."""
    return len(value) == 1 and all(isinstance(key, str) and isinstance(item, dict) for key, item in value.items())


def _value_or_none(value: object) -> object:
    """Return the value, or None for an empty list or object and for the NaN of an empty pandas cell."""
    is_empty = isinstance(value, (list, tuple, dict)) and not value
    is_nan = isinstance(value, float) and value != value  # only NaN differs from itself
    return None if is_empty or is_nan else value


# -- the evaluators


class CallEvaluator(Evaluator):
    """Base of the evaluators of function calls; takes each setting of `MatchPolicy` as a keyword argument.

    Args:
        format: how the model writes calls in text: "auto", or the name of a family's format, then read strictly.

    Raises:
        ConfigurationError: a policy does not exist, or its value is invalid.
        PluginError: the format does not exist.
    """

    pure: ClassVar[bool] = True

    def __init__(self, *, format: str | Profile = AUTO, **policies: bool | float) -> None:
        """Check the policies and the format; the class describes both.

        Only a format other than "auto" becomes one of the `arguments` that identify the evaluator.
        """
        self.policy = MatchPolicy.of(policies)
        """The rules for comparing two calls."""
        self._format = choose_profile(format) or AUTO
        self._task = f"compare by {self.policy}, read as {format}"

        super().__init__(**self.policy.options())
        if format != AUTO:
            self._arguments["format"] = format if isinstance(format, str) else repr(format)

    def in_format(self, profile: Profile) -> Self:
        """Return a copy that reads the response in this format; return the evaluator itself if it has a format."""
        if self._format != AUTO:
            return self
        # The task is the key of the row's cache, so readings in different formats are not mixed up.
        copied = copy.copy(self)
        copied._format, copied._task = profile, f"{self._task}, by the endpoint {profile.name}"
        copied._arguments = {**self._arguments, "format": profile.name}
        return copied

    def compare(self, response: object, ground_truth: object, tool_definitions: object) -> CallComparison:
        """Read the calls of response and ground truth, and match them.

        The result is cached, so that a row's evaluators with equal settings share it.

        Raises:
            ValueError: the ground truth or the tool definitions cannot be read.
        """
        values = (response, ground_truth, tool_definitions)
        return cached_per_row(self._task, values, lambda: compare_calls(*values, self.policy, self._format))

    def _make_verdict(self, passed: bool, faults: Iterable[Fault], properties: Mapping[str, JSON]) -> Verdict:
        """Return the verdict on the primary metric, with a score of 1.0 or 0.0."""
        return verdict(self.primary, score=float(passed), passed=passed, properties=properties, faults=faults)


_FUNCTIONS = "function_call_match"
_MOST_LISTED = 3  # violations and unknown functions in the properties of a row
_MOST_CHARACTERS = 300  # of each of them


class FunctionCallMatchEvaluator(CallEvaluator):
    """Right functions called: each expected function as often as expected, and no other; arguments do not count.

    If the ground truth has no call, a response without a call passes and a response with a call fails, even with
    `allow_extra_calls`. The score is 1.0 or 0.0. `function_call_match_properties` holds the counts of calls `expected`,
    `called` and `matched`; `precision` and `recall` if the row fails; `unreadable` (1) if the response begins a call
    that cannot be read; and, with tool definitions, how many calls were `checked` against their schema, are
    `schema_invalid`, or call an `unknown` function, with the first few `schema_violations` and `unknown_functions` by
    name. Zero and empty values are left out.

    Keyword arguments are the policies of `tunecheck.calls.matching.MatchPolicy`.

    Raises:
        ConfigurationError: a policy does not exist, or its value is invalid.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric(_FUNCTIONS, kind="binary"),)
    primary: ClassVar[str] = _FUNCTIONS

    def __call__(self, *, response: object, ground_truth: object, tool_definitions: object = None) -> Verdict:
        """Judge one row by the names of the called functions.

        Args:
            response: the model's answer, in any format that `tunecheck.calls.read_calls` reads.
            ground_truth: the expected calls or the expected answer, in any of these formats.
            tool_definitions: OpenAI tools, bare function schemas, or JSON text of either.

        Raises:
            ValueError: the ground truth or the tool definitions cannot be read.
        """
        comparison = self.compare(response, ground_truth, tool_definitions)
        passed = comparison.functions_match
        faults = () if passed else comparison.function_faults
        return self._make_verdict(passed, faults, _function_properties(comparison, passed=passed))

    def __aggregate__(self, rows: Iterable[Mapping[str, JSON]]) -> dict[str, float]:
        """Return precision, recall and F1 of the run's calls, which match if their names do, and rates of broken calls.

        `unreadable_call_rate` is a share of all attempted calls, `schema_invalid_call_rate` of all checked calls.
        Rates without a denominator are left out. `unknown_function_count` is set if tool definitions were checked.
        """
        return _rates(_sum_properties(rows, _FUNCTIONS))


def _sum_properties(rows: Iterable[Mapping[str, JSON]], metric: str) -> Counter[str]:
    """Return the sum over all rows for each number in the metric's properties, by the number's name.

    A number in an inner object is named `name.key`: `{"wrong": {"missing": 2}}` adds 2 to `wrong.missing`. A value that
    is not a number counts as 0.
    """
    total: Counter[str] = Counter()
    for row in rows:
        # A row that was not judged has no properties.
        for name, value in jsontext.object_or_empty(row.get(f"{metric}_properties")).items():
            if isinstance(value, (int, float)):
                total[name] += int(value)
            elif isinstance(value, dict):
                for key, count in value.items():
                    total[f"{name}.{key}"] += int(count) if isinstance(count, (int, float)) else 0
    return total


def _function_properties(comparison: CallComparison, *, passed: bool) -> dict[str, JSON]:
    """Return the row's counts of calls, its precision and recall if it failed, and the results of the schema check."""
    match = comparison.match
    expected, called, matched = len(comparison.ground_truth.calls), len(comparison.response.calls), len(match.pairs)

    properties: dict[str, JSON] = {}
    if expected or called:
        properties |= {"expected": expected, "called": called, "matched": matched}
    if not passed:
        properties |= {"precision": matched / called} if called else {}
        properties |= {"recall": matched / expected} if expected else {}
    return properties | _schema_properties(comparison)


def _schema_properties(comparison: CallComparison) -> dict[str, JSON]:
    """Return the row's counts of unreadable calls, calls checked by a schema, invalid calls and unknown functions.

    Add the first few violations and unknown functions, and the notes of the match. Zero and empty values are left out.
    """
    match = comparison.match
    violations = [f"{broken.call.name}: {'; '.join(broken.messages)}" for broken in match.violations[:_MOST_LISTED]]
    properties: dict[str, JSON] = {
        "unreadable": int(comparison.response.problem is not None),
        "checked": match.checked,
        "schema_invalid": len(match.violations),
        "unknown": len(match.unknown),
        "schema_violations": [violation[:_MOST_CHARACTERS] for violation in violations],
        "unknown_functions": [call.name[:_MOST_CHARACTERS] for call in match.unknown[:_MOST_LISTED]],
        "notes": "; ".join(match.notes)[:_MOST_CHARACTERS],
    }
    return {name: value for name, value in properties.items() if value}


def _rates(total: Counter[str]) -> dict[str, float]:
    """Return the run's call metrics from the summed counts of its rows; a rate with a denominator of 0 is left out."""
    called, expected, unreadable = total["called"], total["expected"], total["unreadable"]
    # by name: a numerator and its denominator
    parts = {
        "call_precision": (total["matched"], called),
        "call_recall": (total["matched"], expected),
        "call_f1": (2 * total["matched"], called + expected),
        "unreadable_call_rate": (unreadable, called + unreadable),
        "schema_invalid_call_rate": (total["schema_invalid"], total["checked"]),
    }

    rates: dict[str, float] = {name: part / whole for name, (part, whole) in parts.items() if whole}
    if total["checked"] or total["unknown"]:
        rates["unknown_function_count"] = total["unknown"]
    return rates


_ARGUMENTS = "argument_match"

FAULTS = (*KINDS, "missing", "unexpected")
"""The ways in which an argument can be wrong, as counted in `wrong_arguments.<kind>`."""


class ArgumentMatchEvaluator(CallEvaluator):
    """Right arguments: every call has a counterpart on the other side, and their arguments match.

    Not applicable if neither side has a call. Fails if a call on either side has no counterpart; with
    `allow_extra_calls`, extra calls are ignored. The score is 1.0 or 0.0. `argument_match_properties` covers the calls
    with a counterpart: how many arguments are `right`, out of the `total` on either side, and how many are `wrong`, by
    `FAULTS` (an argument that is wrong in two ways counts for both).

    Keyword arguments are the policies of `tunecheck.calls.matching.MatchPolicy`.

    Raises:
        ConfigurationError: a policy does not exist, or its value is invalid.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric(_ARGUMENTS, kind="binary"),)
    primary: ClassVar[str] = _ARGUMENTS

    def __call__(self, *, response: object, ground_truth: object, tool_definitions: object = None) -> Verdict:
        """Judge one row by its calls and their arguments; not applicable if neither side has a call.

        Response and ground truth are calls or texts in any readable format.

        Raises:
            ValueError: the ground truth or the tool definitions cannot be read.
        """
        comparison = self.compare(response, ground_truth, tool_definitions)
        if not comparison.has_call and not comparison.expects_call:
            return verdict(_ARGUMENTS, not_applicable=True)
        passed = comparison.arguments_match
        faults = () if passed else comparison.faults
        return self._make_verdict(passed, faults, _argument_properties(comparison.match))

    def __aggregate__(self, rows: Iterable[Mapping[str, JSON]]) -> dict[str, float]:
        """Return the share of right arguments over all calls with a counterpart, and a count of wrong ones by kind."""
        total = _sum_properties(rows, _ARGUMENTS)
        metrics: dict[str, float] = {"argument_accuracy": total["right"] / total["total"]} if total["total"] else {}
        return metrics | {f"wrong_arguments.{name}": total[f"wrong.{name}"] for name in FAULTS}


def _argument_properties(match: Match) -> dict[str, JSON]:
    """Count the right arguments, all arguments and the wrong ones by kind, over the `pairs` of the match.

    Calls that are out of order or misnamed do not count. Return an empty dict if the pairs have no arguments.
    """
    total = right = 0
    wrong: Counter[str] = Counter()

    for pair in match.pairs:
        # Both sides count: an unexpected argument is one of the total.
        names = pair.expected.arguments.keys() | pair.actual.arguments.keys()
        # `place[0]` is the argument's name. An argument that is wrong twice in the same way counts once.
        faults = {(difference.place[0], difference.kind or difference.fault) for difference in pair.differences}
        total += len(names)
        right += len(names) - len({name for name, _ in faults})
        wrong.update(kind for _, kind in faults)

    if not total:
        return {}
    return {"right": right, "total": total} | ({"wrong": dict(wrong)} if wrong else {})


_MATCH = "match"


class MatchEvaluator(CallEvaluator):
    """If the ground truth is a call, functions and arguments must match; if it is an answer, the wording must.

    `fcall_match` and `fcall_args_match` are the two verdicts on a row with a call, and null on a row with an answer. On
    a row with a call, `match_score` is 1.0 or 0.0. On a row with an answer, it is the F measure of ROUGE-L with
    Porter's stemmer (Lin 2004), or 0.0 if the response makes a call. A row passes from `threshold` on. Other keyword
    arguments are the policies of `tunecheck.calls.matching.MatchPolicy`.

    Raises:
        ConfigurationError: the threshold is not a number from 0 to 1, or a policy does not exist or has an invalid
            value.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(_MATCH),
        Metric("fcall_match", kind="binary"),
        Metric("fcall_args_match", kind="binary"),
    )
    primary: ClassVar[str] = _MATCH

    def __init__(self, *, threshold: float = 0.75, format: str | Profile = AUTO, **policies: bool | float) -> None:
        """Check the threshold (ConfigurationError), and pass format and policies on to `CallEvaluator`."""
        if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1:
            raise ConfigurationError(f"the threshold of match must be a number from 0 to 1, not {threshold!r}")

        super().__init__(format=format, **policies)
        self._threshold = threshold
        self._arguments = {"threshold": threshold, **self._arguments}

    def __call__(self, *, response: object, ground_truth: object, tool_definitions: object = None) -> Verdict:
        """Judge one row by its calls and their arguments or, if neither side has a call, by the similarity of texts.

        Response and ground truth are calls or texts in any readable format.

        Raises:
            ValueError: the ground truth or the tool definitions cannot be read, or there is no ground truth.
        """
        comparison = self.compare(response, ground_truth, tool_definitions)
        functions = arguments = None  # the row expects no call
        if comparison.expects_call:
            functions, arguments = comparison.functions_match, comparison.arguments_match

        if comparison.expects_call or comparison.has_call:
            passed = bool(functions and arguments)
            score, faults = float(passed), [] if passed else comparison.faults
        else:
            score = _similarity(comparison)
            passed = score >= self._threshold
            fault = Fault(code="below_threshold.rouge_l", expected=self._threshold, actual=score)
            faults = [] if passed else [fault]

        judged = verdict(_MATCH, score=score, passed=passed, threshold=self._threshold, faults=faults)
        return {"fcall_match": functions, "fcall_args_match": arguments} | judged


def _similarity(comparison: CallComparison) -> float:
    """Return the ROUGE-L similarity of an answer without a call to the expected text.

    Raises:
        ValueError: the ground truth is empty.
    """
    from tunecheck.evaluators._text import rouge_l_f  # rouge is loaded for answers only

    if not comparison.ground_truth.text.strip():
        raise ValueError("there is no ground truth to compare with: give a call or a text as `ground_truth`")
    return rouge_l_f(comparison.ground_truth.text, comparison.response.text, stemmer=True)
