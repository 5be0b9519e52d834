"""Rows of several turns: do the model's calls leave the simulators as the ground truth's do, and find out the same?"""

from __future__ import annotations

from collections.abc import Mapping

from tunecheck._errors import DataError, PluginError
from tunecheck.bfcl._conversation_check import Turn, as_leaderboard, strictly
from tunecheck.bfcl._decoding import Mode, mode_of
from tunecheck.bfcl._entries import Entry
from tunecheck.bfcl._replay import Simulators
from tunecheck.bfcl._verdicts import INVALID_ENTRY, Verdict, shown
from tunecheck.conversations._decoding import decode_step
from tunecheck.conversations._nested import NestedCall


def check_multi_turn(
    row: Mapping[str, object],
    result: object,
    *,
    compat: bool,
    simulators: Simulators | None = None,
    mode: Mode | None = None,
    forced_quit: bool = False,
    model: str = "model",
) -> Verdict:
    """The verdict of one row.

    The calls of each turn are made on simulators of their own, and the ground truth's on others; after every turn
    their states must be equal, and the model must have had every result that the ground truth's calls give.

    Args:
        row: the columns `ground_truth`, `involved_classes`, `initial_config`, `long_context`, as a data set
            `bfcl:multi_turn_…` has them.
        result: as in a result file: by turn, the steps: `[{"f": "<arguments as JSON>"}, …]`, or text.
        compat: judge exactly as the leaderboard does, error types included. Else strictly: a call in a turn that asks
            for none fails, so does a conversation that was ended by force, each result of a call counts for one call
            of the ground truth, and a row whose ground-truth calls all fail is invalid and not scored.
        simulators: makes the backends; share one among rows. Rows with long context need one that has the constants.
        mode: how the model was asked, where the result alone does not say.
        forced_quit: whether it was recorded that the conversation was ended by force.
        model: the model's name, which the leaderboard mixes into some calls.

    Raises:
        ValueError: the row has no ground truth of this form.
        DataError: the long-context constants are needed and not there.
    """
    entry = Entry.read(row)
    if not isinstance(result, list):
        return Verdict(False, "multi_turn:inference_error", None, f"no list of turns was recorded: {shown(result)}")
    if len(result) != len(entry.truth):
        recorded = "1 turn was" if len(result) == 1 else f"{len(result)} turns were"
        text = f"{recorded} recorded; the ground truth has {len(entry.truth)}"
        at = len(result) - 1 if 0 < len(result) < len(entry.truth) else None
        return Verdict(False, "multi_turn:force_terminated", at, text)
    unreadable = next((at for at, turn in enumerate(result) if not isinstance(turn, (list, str, dict))), None)
    if unreadable is not None:
        text = f"the turn is {shown(result[unreadable], 60)}, no list of steps"
        return Verdict(False, "multi_turn:inference_error", unreadable, text)
    simulators = simulators or Simulators()
    if entry.long_context and not simulators.has_long_context:
        raise DataError("this row needs BFCL's long-context constants; get them with: tunecheck datasets get bfcl")
    mode = mode or mode_of([result])
    turns = [_decoded(turn, mode, compat=compat) for turn in result]
    try:
        if compat:
            return as_leaderboard(entry, turns, simulators, named=mode == "tools", model=model)
        if forced_quit:
            words = "the conversation was ended by force"
            return Verdict(False, "multi_turn:force_terminated", len(turns) - 1, words)
        return strictly(entry, turns, simulators, named=mode == "tools")
    except (PluginError, DataError) as error:
        return Verdict(False if compat else None, INVALID_ENTRY, None, f"the entry cannot be replayed: {error}")


def _decoded(turn: object, mode: Mode, *, compat: bool) -> Turn:
    """The calls of each step of a turn; a step in which there is none is left empty."""
    steps = turn if isinstance(turn, list) else []
    return [_calls(step, mode, compat=compat) for step in steps]


def _calls(step: object, mode: Mode, *, compat: bool) -> tuple[NestedCall, ...]:
    if compat and mode == "text" and not isinstance(step, str):
        return ()
    return decode_step([step] if isinstance(step, dict) else step, text_mode=mode == "text", compat=compat).calls
