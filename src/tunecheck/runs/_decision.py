"""What a run that may stop early has decided, in words."""

from tunecheck._files import Decision
from tunecheck._messages import counted


def stopped_text(decision: Decision | None) -> str:
    """`STOPPED EARLY: worse than base-…, 123 of 1,240 rows`: what is said wherever the figures of such a run stand.

    Empty of a run that has all its rows.
    """
    if decision is None or not decision.stopped:
        return ""
    return f"STOPPED EARLY: {_outcome(decision)}, {decision.rows:,} of {counted(decision.of, 'row')}"


def _outcome(decision: Decision) -> str:
    """`worse than base-…`, `worse than base-… by less than 0.02`."""
    margin = "" if decision.margin is None else f" by less than {decision.margin:g}"
    match decision.outcome:
        case "better":
            return f"better than {decision.against}"
        case "worse":
            return f"worse than {decision.against}" + margin.replace("less than ", "") + " or more" * bool(margin)
        case "not_worse":
            return f"worse than {decision.against}{margin}, if at all"
        case "undecided":
            return f"undecided against {decision.against}"
