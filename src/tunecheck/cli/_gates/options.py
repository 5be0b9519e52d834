"""The options that say what a run must hold."""

from dataclasses import dataclass

from tunecheck.cli._options import GATING, CommandOptions, flag, option


@dataclass(frozen=True, kw_only=True)
class GateOptions(CommandOptions):
    """Options of commands whose exit code depends on gates."""

    fail_under: list[str] | None = option(
        "Exit with 3 unless this holds, e.g. 'function_call_match>=0.8', 'rouge.rouge>0.5', "
        "'match\\[call]>=0.7' for the rows of one group (repeatable).",
        "GATE",
        GATING,
    )
    max_error_rate: float | None = option(
        "Exit with 3 if more rows than this share have an error; 0 where there is a gate.",
        "SHARE",
        GATING,
        least=0,
        most=1,
    )
    no_worse_than: str | None = option(
        "Require evidence that this run is at most --margin worse than RUN, by the primary metric or by the metrics "
        "and slices that --fail-under names. Exit 3 if not met, 4 if undecided.",
        "RUN",
        GATING,
    )
    margin: float | None = option(
        "How much worse is still accepted, in the metric's unit (0.02: two points of a pass rate).",
        "M",
        GATING,
        least=0,
    )
    better_than: str | None = option(
        "Require evidence that this run is better than RUN, by the primary metric or by the metrics and slices that "
        "--fail-under names. Exit 3 if it is worse, 4 if undecided.",
        "RUN",
        GATING,
    )
    confidence: float | None = option(
        "Confidence of gates against a run; by default 0.95.", "C", GATING, least=0.5, most=0.9999
    )
    undecided: str | None = option(
        "How to treat an undecided gate: fail (exit 3) or pass (exit 0); by default exit 4.", "HOW", GATING
    )
    allow_changed_evaluator: bool = flag(
        "Let gates against a run judge although an evaluator is not the same in both runs.", GATING
    )
    allow_simulated: bool = flag("Let gates judge a run that asked no model.", GATING)
