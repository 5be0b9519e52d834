"""Gates: conditions on a run's metrics that decide the exit code.

A command reads its gates with `parse_gate()` and checks their names before the run and their metrics after it.

| gate | metric | group |
|---|---|---|
| `match>=0.8` | the evaluator `match`: its pass rate, else its main mean | all rows |
| `match[call]>=80%` | the same | rows that need a call: `call` is a value of `row_kind`, like `answer` |
| `match[language=de]>=0.8` | the same | rows whose column `language` is `de` |
| `rouge.f1>0.4` | the metric `f1` of the evaluator `rouge` | all rows |
| `cause.unreadable<=0.01` | the share of rows with this cause; 0 if no row has it | all rows |

An evaluator's main mean (`Gate._key`) is that of its declared primary metric, else of the metric with its name, else of
its first metric. If a model judges, its pass rate over all rows is corrected for its errors.

**The end of all gates** (`end_of`): not met if one is not met; else undecided if one is undecided, unless
`--undecided` says how to count it; else met.
"""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from tunecheck._errors import ConfigurationError
from tunecheck._faults import CAUSE_METRIC, causes
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean, plural
from tunecheck.pipeline._finished_rows import PASS_RATE

if TYPE_CHECKING:
    from tunecheck.cli._evaluate.options import Options
    from tunecheck.comparison._judged import Correction

ROW_KINDS = ("call", "answer")
"""The groups that a gate may name without a column."""

_GATE = re.compile(
    r"\s*(?P<metric>[^\[\]<>=]+?)\s*(?:\[(?P<group>[^\[\]]+)\])?\s*(?P<operator>>=|<=|==|>|<)\s*(?P<required>[^\s<>=]+)\s*"
)
"""A gate such as `match [language=de] >= 80%`: metric `match`, group `language=de`, operator `>=`, required `80%`."""
_OPERATORS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "==": operator.eq}

End = Literal["met", "not met", "undecided"]
"""The end of a gate."""

Metrics = Mapping[str, JSON]
"""Metrics as in `metrics.json`, over all rows or one group: `{"match.binary_aggregate": 0.947, …}`."""
Groups = Mapping[str, Mapping[str, Metrics]]
"""Metrics by grouping column and value: `{"row_kind": {"call": {…}, "answer": {…}}}`."""


class GateOutcome(msgspec.Struct, frozen=True):
    """The outcome of a gate; `found` is None if there was nothing to count.

    `found_as` is the text of `found` if it is not a plain number, and `required_as` that of `gate` if it differs. For a
    comparison with another run, `found` is the difference, and `comparison` has its figures. `decision` is set if
    objections fail the gate. An `undecided` gate is not met either: the rows neither show what it requires nor rule it
    out.
    """

    gate: str
    found: float | None
    met: bool
    remark: str = ""
    comparison: Mapping[str, JSON] | None = None
    undecided: bool = False
    found_as: str = ""
    decision: Mapping[str, JSON] | None = None
    required_as: str = ""

    @property
    def required_text(self) -> str:
        """The gate as text, with a rate in percent."""
        return self.required_as or self.gate

    @property
    def found_text(self) -> str:
        """The finding as text; `nothing` if there was nothing to count."""
        return self.found_as or ("nothing" if self.found is None else f"{self.found:.6g}")

    @property
    def told(self) -> str:
        """The requirement and the finding."""
        return f"required {self.required_text}, found {self.found_text}" + (f" ({self.remark})" if self.remark else "")

    @property
    def end(self) -> End:
        """The end of this gate."""
        if self.met:
            return "met"
        return "undecided" if self.undecided else "not met"

    def as_json(self) -> dict[str, JSON]:
        """Return the outcome as JSON, with the comparison or decision only if there is one."""
        data: dict[str, JSON] = {"gate": self.gate, "found": self.found, "met": self.met}
        data |= {"outcome": self.end.replace(" ", "_"), "remark": self.remark or None}
        more = {"comparison": self.comparison, "decision": self.decision}
        return data | {name: dict(details) for name, details in more.items() if details is not None}


class Gate(msgspec.Struct, frozen=True):
    """A gate such as `function_call_match[call]>=0.8`: a metric, its group of rows (None: all), and the condition.

    A group is `call`, `answer` or `column=value`.
    """

    metric: str
    group: str | None
    operator: str
    required: float

    def __str__(self) -> str:
        return f"{self._condition} {self.required:g}"

    @property
    def _condition(self) -> str:
        """The gate without its number, such as `match[call] >=`."""
        group = f"[{self.group}]" if self.group is not None else ""
        return f"{self.metric}{group} {self.operator}"

    @property
    def slice(self) -> tuple[str, str] | None:
        """The column and the value of the gate's group, such as `("row_kind", "call")`; None for all rows."""
        if self.group is None:
            return None
        column, equals, value = self.group.partition("=")
        return (column, value) if equals else ("row_kind", self.group)

    def check_names(self, evaluators: Collection[str]) -> None:
        """Check before the run that the gate names an evaluator and a group that exist.

        Raises:
            ConfigurationError: there is no such evaluator, cause or group.
        """
        if self.metric.startswith(CAUSE_METRIC):
            code = self.metric.removeprefix(CAUSE_METRIC)
            if code not in causes():
                raise self._error(f"there is no cause of failures {code!r}{did_you_mean(code, causes())}")
        elif not any(self.metric == name or self.metric.startswith(f"{name}.") for name in evaluators):
            hint = did_you_mean(self.metric.partition(".")[0], evaluators)
            raise self._error(f"no evaluator of this run computes {self.metric!r}{hint}")

        # The values of a column are known only after the run.
        if self.group is not None and "=" not in self.group and self.group not in ROW_KINDS:
            raise self._error(f"there is no group of rows {self.group!r}: write call, answer or COLUMN=VALUE")

    def _error(self, problem: str) -> ConfigurationError:
        """Return the error that names this gate and the problem."""
        return ConfigurationError(f"--fail-under {str(self)!r}: {problem}")

    def check_scale(self, evaluators: Mapping[str, object]) -> None:
        """Check that a threshold for a share lies between 0 and 1: `match>=95` is never met, `match<=5` always.

        Raises:
            ConfigurationError: the threshold is below 0 or above 1.
        """
        if 0 <= self.required <= 1 or not self._is_share(evaluators):
            return

        percent = str(self).replace(" ", "") + "%"
        share = str(replace(self, required=self.required / 100)).replace(" ", "")
        remedy = f"write '{percent}' or '{share}'" if 1 < self.required <= 100 else "write a number from 0 to 1"
        raise self._error(f"{self.metric} lies between 0 and 1, so {self.required:g} is out of range: {remedy}")

    def _is_share(self, evaluators: Mapping[str, object]) -> bool:
        """Return True if the gate's metric lies between 0 and 1.

        Pass rates and shares of causes do, and metrics that an evaluator declares as binary or with the range [0, 1].
        """
        from tunecheck.evaluators._base import Evaluator
        from tunecheck.pipeline._mapping import declared_metrics

        if self.metric.startswith(CAUSE_METRIC) or self.metric.endswith(f".{PASS_RATE}"):
            return True
        # The name alone means the pass rate, if the evaluator has one.
        if self.metric in evaluators:
            return isinstance(evaluator := evaluators[self.metric], Evaluator) and evaluator.has_pass_rate

        # Names of evaluators and of metrics may contain dots, so whole names are compared.
        metric = self.metric.removesuffix("_score")
        declared = [(f"{name}.{each.name}", each) for name, own in evaluators.items() for each in declared_metrics(own)]
        return any(name == metric and (each.kind == "binary" or each.range == [0, 1]) for name, each in declared)

    def check(
        self,
        metrics: Metrics,
        by: Groups,
        primaries: Mapping[str, str | None],
        judges: Mapping[str, Correction] | None = None,
    ) -> GateOutcome:
        """Return the outcome of the gate on a run's metrics.

        `by` has the metrics of groups, by column and value. `primaries` has each evaluator's declared main metric.

        Over all rows, the pass rate of one of the `judges` is corrected for the judge's errors; in a group it is not. A
        group or a metric without values does not meet its gate; a cause without rows counts as 0.

        Raises:
            ConfigurationError: there is no such metric, or it is no number.
        """
        chosen: Metrics | None = metrics
        if self.slice is not None:
            column, wanted = self.slice
            chosen = by.get(column, {}).get(wanted)
        if chosen is None:
            return GateOutcome(str(self), None, False, "no row belongs to this group")

        is_cause = self.metric.startswith(CAUSE_METRIC)
        key = self.metric if is_cause else self._key(metrics, primaries)
        # `metrics.json` has no key for a cause without rows.
        value: JSON = None if key is None else chosen.get(key, 0 if is_cause else None)
        if key is None or value is None:
            return GateOutcome(str(self), None, False, "no row has a value")

        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._error(f"the metric {key} is not a number: name a numeric metric")

        # A gate on an evaluator without a pass rate says which number it used.
        remark = "" if key in (self.metric, f"{self.metric}.{PASS_RATE}") else f"mean of {key}"

        evaluator, _, last_word = key.rpartition(".")
        is_pass_rate = last_word == PASS_RATE

        if is_pass_rate and judges and evaluator in judges:
            value, remark = _corrected_rate(judges[evaluator], value, group=self.group is not None)

        met = bool(_OPERATORS[self.operator](value, self.required))
        if not is_pass_rate and not is_cause:
            return GateOutcome(str(self), value, met, remark)

        found_text, required_text = _rate_text(value, self.required), f"{self._condition} {100 * self.required:g}%"
        return GateOutcome(str(self), value, met, remark, found_as=found_text, required_as=required_text)

    def _key(self, metrics: Metrics, primaries: Mapping[str, str | None]) -> str | None:
        """Return the key of the gate's metric among `metrics`; None if its evaluator scored no row.

        A gate may name the key itself, such as `rouge.f1`, or an evaluator. For an evaluator such as `match`, the key
        is that of its pass rate, `match.binary_aggregate`, else that of its main mean. `primaries` has each evaluator's
        declared main metric, or None.

        Raises:
            ConfigurationError: there is no such metric.
        """
        if self.metric not in primaries:
            if self.metric in metrics:
                return self.metric

            # The metric of an evaluator that scored no row is not among the metrics: that is no mistake of the gate.
            owners = [name for name in primaries if self.metric.startswith(f"{name}.")]
            if owners and metrics.get(f"{max(owners, key=len)}.scored_count") == 0:
                return None
            raise self._error(f"there is no metric {self.metric!r}{did_you_mean(self.metric, metrics)}")

        name = self.metric
        first = next((key for key in metrics if key.startswith(f"{name}.")), "")
        candidates = (f"{name}.{PASS_RATE}", f"{name}.{primaries[name]}", f"{name}.{name}", first)

        key = next((candidate for candidate in candidates if candidate in metrics), None)
        # Without a mean, the first key is a count such as `scored_count`.
        return None if key is None or key.endswith("_count") else key


def _rate_text(rate: float, required: float) -> str:
    """Return a rate as `74.4%`; with more digits if the rounded rate would equal `required` or be on its other side.

    For example, a rate of 0.79996 with 0.8 required is `79.996%`, because `80.0%` would seem to be enough.
    """
    texts = [f"{rate:.{digits}%}" for digits in range(1, 12)]
    # The product is positive if the rounded rate, without its percent sign, is on the same side as the rate.
    on_same_side = (text for text in texts if (float(text[:-1]) / 100 - required) * (rate - required) > 0)

    return next(on_same_side, texts[0])


def _corrected_rate(judge: Correction, rate: float, *, group: bool) -> tuple[float, str]:
    """Return a judge's pass rate corrected for its errors, and a remark on that.

    `rate` is the rate of its verdicts, which is returned if it cannot be corrected. The rate of a `group` of rows is
    not corrected.
    """
    corrected = judge.corrected
    if corrected is None:
        return rate, judge.remark or "uncalibrated judge"
    if group:
        return rate, "not corrected for the judge's errors: only rates over all rows are corrected"

    if corrected.value is None:
        return rate, corrected.remark or "cannot be corrected for the judge's errors"

    remark = f"corrected for the judge's errors with {judge.labels:,} labels"
    if corrected.low is not None:
        remark += f", {100 * corrected.confidence:.3g}% interval {corrected.low:.1%} to {corrected.high:.1%}"
    return corrected.value, f"{remark}; uncorrected {rate:.1%}"


def parse_gate(text: str) -> Gate:
    """Return the gate in a text `metric>=number` or `metric[group]>=number`; the number may be a percentage.

    The sign is `>=`, `>`, `<=`, `<` or `==`.

    Raises:
        ConfigurationError: the text has another form.
    """
    if match := _GATE.fullmatch(text):
        # A text such as `0.8x` is no number; `nan` and `inf` are refused, too.
        with contextlib.suppress(ValueError):
            required = float(match["required"].removesuffix("%")) / (100 if match["required"].endswith("%") else 1)
            if math.isfinite(required):
                return Gate(match["metric"], match["group"], match["operator"], required)

    form = "metric>=number, e.g. 'function_call_match>=0.8', with one of >= > <= < =="
    raise ConfigurationError(f"--fail-under {text!r} is not a gate: write {form}")


def check_base(options: Options) -> None:
    """Check that the options of gates against a run are complete and fit together.

    Raises:
        ConfigurationError: an option is missing, has a wrong value, or excludes another.
    """
    base, margin, undecided = options.no_worse_than, options.margin, options.undecided
    needed = "needs --no-worse-than RUN or --better-than RUN: add one, or leave"
    problems = (
        (undecided not in (None, "fail", "pass"), f"--undecided {undecided!r} is unknown: write fail or pass"),
        (undecided is not None and options.against is None, f"--undecided {needed} --undecided out"),
        (options.until_decided and options.against is None, f"--until-decided {needed} --until-decided out"),
        (base is not None and options.better_than is not None, "give only one of --no-worse-than and --better-than"),
        (base is not None and margin is None, f"--no-worse-than {base} needs --margin, e.g. 0.02 for two points"),
        (base is None and margin is not None, "--margin needs --no-worse-than RUN: name the run to compare with"),
        (margin is not None and not 0 <= margin < math.inf, f"--margin {margin!r}: write a number of 0 or more"),
    )
    for is_wrong, problem in problems:
        if is_wrong:
            raise ConfigurationError(problem)


def end_of(outcomes: Iterable[GateOutcome], undecided: str | None) -> End:
    """Return the common end of all gates: not met if any is not met, else undecided if any is undecided, else met.

    `undecided` says how undecided gates count: `pass`, `fail`, or None if they stay undecided.
    """
    ends = {outcome.end for outcome in outcomes}
    if "not met" in ends:
        return "not met"

    counts: Mapping[str | None, End] = {None: "undecided", "fail": "not met", "pass": "met"}
    return counts[undecided] if "undecided" in ends else "met"


def check_error_rate(allowed: float, failed: int, rows: int) -> GateOutcome:
    """Return the outcome of the gate on the share of rows with an error: met up to the `allowed` share."""
    rate = failed / rows if rows else 0.0

    found = f"{failed:,} of {plural(rows, 'row')} ({_rate_text(rate, allowed)})"
    required = f"error rate <= {100 * allowed:g}%"

    return GateOutcome(f"error rate <= {allowed:g}", rate, rate <= allowed, found_as=found, required_as=required)
