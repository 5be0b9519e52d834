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
"""Number of rows of a kind that the failure message names, such as regressed ones."""

_WIDTH = 1_000
"""Width of the failure message in characters: sentences stay on one line, so that logs can be searched."""


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
        AssertionError: the run is worse, there are too few rows, or an objection affects the decision. The text has
            the metrics that failed, and the page of `tunecheck compare`.
        ConfigurationError: the runs cannot be compared.
        DataError: the files of a run are damaged.
    """
    __tracebackhide__ = True
    from io import StringIO
    from pathlib import Path

    from tunecheck._messages import clean, without_log_commands
    from tunecheck.comparison._compare import compare_runs
    from tunecheck.comparison._measuring import ComparisonSettings
    from tunecheck.comparison._view import comparison_view
    from tunecheck.comparison._wording import headline, margin_text
    from tunecheck.views import console, print_view

    settings = ComparisonSettings(
        metrics=metric,
        margin=margin,
        cluster=cluster,
        pair_by=pair_by,
        allow_simulated=allow_simulated,
        rows=_MOST_ROWS,
    )

    comparison = compare_runs([base, run], Path(results_dir), settings)
    # `against` has one entry per compared run; here there is only one.
    tested = [compared for compared in comparison.against[-1].tested if metric is not None or compared.primary]

    failed = [compared for compared in tested if not _holds(compared, margin)]

    # Objections that affect the decision fail the test, too.
    if failed or any(objection.effect != "none" for objection in comparison.decision.objections):
        lines = []
        for compared in failed:
            texts = [f"{compared.name}: {headline(compared)}", margin_text(compared)]
            # The page lists rows of the primary metric only.
            if compared.regressed and not compared.primary:
                names = ", ".join(row.row_id for row in compared.regressed[:_MOST_ROWS])
                texts.append(f"regressed {compared.totals['regressed']:,}: {names}")
            lines.append(clean("; ".join(filter(None, texts)), 600))

        terminal = console(page := StringIO())
        terminal.width = _WIDTH
        print_view(comparison_view(comparison, _MOST_ROWS, details=False), terminal)
        raise AssertionError(without_log_commands("\n".join([*lines, page.getvalue()])))
    return comparison


def _holds(metric: MetricComparison, margin: float | None) -> bool:
    """Return True if the loss is shown to be below the margin; without a margin, if no loss is shown."""
    if margin is None:
        return metric.verdict in ("better", "no difference shown")
    return metric.non_inferiority is not None and metric.non_inferiority.shown is True


@pytest.fixture(name="assert_no_regression")
def _assert_no_regression() -> Callable[..., Comparison]:
    """`tunecheck._pytest_plugin.assert_no_regression`."""
    return assert_no_regression
