"""The options that say what a run must hold."""

from dataclasses import dataclass

from tunecheck.cli._options import GATING, CommandOptions, flag, option


@dataclass(frozen=True, kw_only=True)
class GateOptions(CommandOptions):
    """Options of commands whose exit code depends on gates."""

    fail_under: list[str] | None = option("Fail (exit 3) unless this holds, as 'match>=0.8'.", "GATE", GATING)
    max_error_rate: float | None = option(
        "Fail (exit 3) if a larger share of rows has an error; default with a gate: 0.",
        "SHARE",
        GATING,
        least=0,
        most=1,
    )
    no_worse_than: str | None = option("Require evidence: at most --margin worse than RUN.", "RUN", GATING)
    margin: float | None = option("Loss to accept; 0.02 is two points of a pass rate.", "M", GATING, least=0)
    better_than: str | None = option("Require evidence: better than RUN (exit 4: undecided).", "RUN", GATING)
    confidence: float | None = option(
        "Confidence of gates against a run; default 0.95.", "C", GATING, least=0.5, most=0.9999
    )
    undecided: str | None = option(
        "Treat an undecided gate as fail (exit 3) or pass (exit 0); default: exit 4.", "HOW", GATING
    )
    allow_changed_evaluator: bool = flag("Let gates compare runs with different evaluators.", GATING)
    allow_simulated: bool = flag("Let gates judge simulated answers.", GATING)
