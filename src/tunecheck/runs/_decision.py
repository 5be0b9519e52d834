"""What a run that may stop early has decided, in words."""

from tunecheck._files import EarlyStop
from tunecheck._messages import counted


def stopped_text(decision: EarlyStop | None) -> str:
    """`STOPPED EARLY: worse than base-…, 123 of 1,240 rows`: what is said wherever the figures of such a run stand.

    Empty of a run that has all its rows.
    """
    if decision is None or not decision.stopped:
        return ""
    return f"STOPPED EARLY: {_outcome(decision)}, {decision.rows:,} of {counted(decision.of, 'row')}"


def _outcome(decision: EarlyStop) -> str:
    """`worse than base-…`, `at most 2 points worse than base-…`; a margin of scores is in their own unit."""
    rates = all(metric.kind == "binary" for metric in decision.metrics)
    margin = (
        "" if decision.margin is None else f"{100 * decision.margin:g} points " if rates else f"{decision.margin:g} "
    )
    match decision.outcome:
        case "better":
            return f"better than {decision.against}"
        case "worse":
            return f"{margin}or more worse than {decision.against}" if margin else f"worse than {decision.against}"
        case "not_worse":
            return f"at most {margin}worse than {decision.against}"
        case "undecided":
            return f"undecided against {decision.against}"
