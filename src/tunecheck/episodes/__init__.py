"""Conversations of several turns, with simulators behind a model's calls.

`ConversationTarget` has them; `StateCheck` judges them; `Services`, `Attempt` and `Replay` play calls on simulators of
their own; `changes` compares two states. A benchmark's plug-in brings a `BenchmarkDialect`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunecheck.episodes._benchmark import BenchmarkDialect, benchmark_of, find_benchmark
    from tunecheck.episodes._data_check import (
        ASKS,
        PROBLEMS,
        CheckedRow,
        EntryCheck,
        PlayedCall,
        checked_rows,
        findings,
        reports_failure,
    )
    from tunecheck.episodes._decoding import (
        NO_CALL,
        CallMode,
        at_most_max_calls,
        decode_entries,
        decode_step,
        entries_of,
        mode_of,
    )
    from tunecheck.episodes._dialects import Dialect, TextDialect, ToolsDialect, answer_step, answer_text
    from tunecheck.episodes._expected_answers import question_row, step_row
    from tunecheck.episodes._inference_log import UNKNOWN, Course
    from tunecheck.episodes._nested import Decoded, NestedCall, make_call
    from tunecheck.episodes._output import BY_STEP, OUTPUT_COLUMNS, REASONING
    from tunecheck.episodes._playing import Attempt, Called, GroundTruth, Replay, Services
    from tunecheck.episodes._scenario import Offer, Scenario, Tool, read_scenario
    from tunecheck.episodes._speakers import Message, RecordedModel
    from tunecheck.episodes._state_check import (
        PASSED,
        Given,
        Results,
        StateCheck,
        Turn,
        made_results,
        missing_result,
        no_call,
        results_of,
        wrong_state,
    )
    from tunecheck.episodes._states import ABSENT, Change, changes, copied, deviations, leaves, path_text
    from tunecheck.episodes._target import STEP_LIMIT, ConversationTarget
    from tunecheck.episodes._verdicts import INVALID_ENTRY, RowVerdict, shown, unscored
    from tunecheck.episodes._wording import OwnWording, Wording

_HOMES = {
    **dict.fromkeys(("BenchmarkDialect", "benchmark_of", "find_benchmark"), "_benchmark"),
    **dict.fromkeys(
        ("ASKS", "PROBLEMS", "CheckedRow", "EntryCheck", "PlayedCall", "checked_rows", "findings", "reports_failure"),
        "_data_check",
    ),
    **dict.fromkeys(
        ("NO_CALL", "CallMode", "at_most_max_calls", "decode_entries", "decode_step", "entries_of", "mode_of"),
        "_decoding",
    ),
    **dict.fromkeys(("Dialect", "TextDialect", "ToolsDialect", "answer_step", "answer_text"), "_dialects"),
    **dict.fromkeys(("question_row", "step_row"), "_expected_answers"),
    **dict.fromkeys(("UNKNOWN", "Course"), "_inference_log"),
    **dict.fromkeys(("Decoded", "NestedCall", "make_call"), "_nested"),
    **dict.fromkeys(("BY_STEP", "OUTPUT_COLUMNS", "REASONING"), "_output"),
    **dict.fromkeys(("Attempt", "Called", "GroundTruth", "Replay", "Services"), "_playing"),
    **dict.fromkeys(("Offer", "Scenario", "Tool", "read_scenario"), "_scenario"),
    **dict.fromkeys(("Message", "RecordedModel"), "_speakers"),
    **dict.fromkeys(
        (
            "PASSED",
            "Given",
            "Results",
            "StateCheck",
            "Turn",
            "made_results",
            "missing_result",
            "no_call",
            "results_of",
            "wrong_state",
        ),
        "_state_check",
    ),
    **dict.fromkeys(("ABSENT", "Change", "changes", "copied", "deviations", "leaves", "path_text"), "_states"),
    **dict.fromkeys(("STEP_LIMIT", "ConversationTarget"), "_target"),
    **dict.fromkeys(("INVALID_ENTRY", "RowVerdict", "shown", "unscored"), "_verdicts"),
    **dict.fromkeys(("OwnWording", "Wording"), "_wording"),
}

__all__ = [
    "ABSENT",
    "ASKS",
    "BY_STEP",
    "INVALID_ENTRY",
    "NO_CALL",
    "OUTPUT_COLUMNS",
    "PASSED",
    "PROBLEMS",
    "REASONING",
    "STEP_LIMIT",
    "UNKNOWN",
    "Attempt",
    "BenchmarkDialect",
    "CallMode",
    "Called",
    "Change",
    "CheckedRow",
    "ConversationTarget",
    "Course",
    "Decoded",
    "Dialect",
    "EntryCheck",
    "Given",
    "GroundTruth",
    "Message",
    "NestedCall",
    "Offer",
    "OwnWording",
    "PlayedCall",
    "RecordedModel",
    "Replay",
    "Results",
    "RowVerdict",
    "Scenario",
    "Services",
    "StateCheck",
    "TextDialect",
    "Tool",
    "ToolsDialect",
    "Turn",
    "Wording",
    "answer_step",
    "answer_text",
    "at_most_max_calls",
    "benchmark_of",
    "changes",
    "checked_rows",
    "copied",
    "decode_entries",
    "decode_step",
    "deviations",
    "entries_of",
    "find_benchmark",
    "findings",
    "leaves",
    "made_results",
    "make_call",
    "missing_result",
    "mode_of",
    "no_call",
    "path_text",
    "question_row",
    "read_scenario",
    "reports_failure",
    "results_of",
    "shown",
    "step_row",
    "unscored",
    "wrong_state",
]


def __getattr__(name: str) -> object:
    """Load a module when one of its names is used: a run without conversations needs none."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tunecheck.episodes' has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
