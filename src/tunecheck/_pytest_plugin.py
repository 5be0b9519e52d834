"""The pytest fixture that fails a test if a run is worse than another one.

    from tunecheck._pytest_plugin import assert_no_regression      # or take the fixture of the same name

    def test_the_new_model_is_no_worse() -> None:
        assert_no_regression("last", "runs/accepted", metric="function_call_match", margin=0.02)

Pytest loads this module at every start, so it imports everything else only when a test uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from tunecheck.comparison._comparison import Comparison, MetricComparison
    from tunecheck.results import RunLike

_MOST_ROWS = 5
"""Number of regressed rows that the failure message names."""


def assert_no_regression(
    run: RunLike,
    base: RunLike,
    *,
    metric: str | Sequence[str] | None = None,
    margin: float | None = None,
    cluster: str | None = None,
    pair_by: str = "content",
    allow_simulated: bool = False,
    results_dir: str | os.PathLike[str] = "eval_results",
) -> Comparison:
    """Assert that a run is not worse than a base run, row by row; return the comparison.

    Args:
        run: the run to test: its folder, id, a prefix of its id, `last`, or the result of `evaluate()`.
        base: the run to compare with; also Azure's evaluation_results.json, or BFCL's scores.
        metric: an evaluator, a metric of metrics.json, a slice such as `match[domain=refund]`, or a list of these; by
            default the primary metric. For an evaluator, its pass rate is compared, if it has one, else its main
            metric.
        margin: the accepted loss in the metric's unit (0.02: two points of a pass rate). The test passes if the loss
            is shown to be smaller. Without a margin, it passes if no loss is shown and there is enough data to show
            one.
        cluster: a column of the data; rows with equal values are dependent, as in `tunecheck.compare`.
        pair_by: `content` pairs rows with equal content; `id` pairs rows with equal ids, whatever their content.
        allow_simulated: also compare runs with simulated answers.
        results_dir: the folder of the runs.

    Raises:
        AssertionError: the run is worse, or there are too few rows; names each metric, its figures, and rows that
            regressed.
        ConfigurationError: the runs cannot be compared.
        DataError: the files of a run are damaged.
    """
    __tracebackhide__ = True
    from pathlib import Path

    from tunecheck._messages import clean, without_log_commands
    from tunecheck.comparison._compare import compare_runs
    from tunecheck.comparison._measuring import ComparisonSettings

    settings = ComparisonSettings(
        metrics=metric,
        margin=margin,
        cluster=cluster,
        pair_by=pair_by,
        allow_simulated=allow_simulated,
        rows=_MOST_ROWS,
    )

    comparison = compare_runs([base, run], Path(results_dir), settings)
    tested = [compared for compared in comparison.against[-1].tested if metric is not None or compared.primary]
    failed = [_line(compared) for compared in tested if not _holds(compared, margin)]

    # Objections that affect the decision fail the test, too.
    objections = [objection for objection in comparison.decision.objections if objection.effect != "none"]
    failed += [f"  {objection.effect}: {clean(objection.text, 600)}" for objection in objections]

    if failed:
        said = "\n".join([f"{comparison.new.id} against {comparison.base.id}:", *failed])
        raise AssertionError(without_log_commands(said))
    return comparison


def _holds(metric: MetricComparison, margin: float | None) -> bool:
    """Return True if the loss is shown to be below the margin; without a margin, if no loss is shown."""
    if margin is None:
        return metric.verdict in ("better", "no difference shown")
    return metric.non_inferiority is not None and metric.non_inferiority.shown is True


def _line(metric: MetricComparison) -> str:
    """Return the lines of the failure message on one metric: its figures, the margin, and rows that regressed."""
    from tunecheck._messages import clean
    from tunecheck.comparison._wording import headline, margin_text

    said = f"  {metric.name}: {headline(metric)}"

    margin = margin_text(metric)
    said += f"; {margin}" if margin else ""

    if metric.regressed:
        names = ", ".join(row.row_id for row in metric.regressed[:_MOST_ROWS])
        more = metric.totals.get("regressed", 0) - min(_MOST_ROWS, len(metric.regressed))
        said += f"\n    regressed: {names}" + (f" and {more:,} more" if more > 0 else "")
    return "\n".join(f"  {clean(line, 600)}" for line in said.splitlines())


@pytest.fixture(name="assert_no_regression")
def _assert_no_regression() -> Callable[..., Comparison]:
    """`tunecheck._pytest_plugin.assert_no_regression`."""
    return assert_no_regression
