"""The ground truth of entries as conversations: questions, calls, results, and changes of the state.

Lines of a conversation, whose expected calls are executed on fresh simulators:

    multi_turn_base_0  (TwitterAPI, GorillaFileSystem)

    turn 0
      user  Move 'final_report.pdf' within document directory to 'temp' directory in document. …
      call  mkdir(dir_name="temp")
        result  None
        state  GorillaFileSystem.root.workspace.document.temp: nothing → {}
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from tunecheck import DataError
from tunecheck.calls import Reading, bind_positional, canonical_text
from tunecheck.datasets import Record
from tunecheck.episodes import ABSENT, GroundTruth, Player, Services, path_text, value_text
from tunecheck.plugins import JSON
from tunecheck_bfcl._data.files import find_bfcl
from tunecheck_bfcl._data.loader import select_rows
from tunecheck_bfcl._data.prompts import read_long_context

_MOST_CHANGES = 20
"""The most changes of the state that are shown for a call."""

_LONGEST_RESULT = 2_000
"""The most characters of a result that are shown."""


def ground_truths(
    categories: str | None, ids: Sequence[str], folder: Path | None
) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the id of each row with the lines of the row's ground truth. `select_rows` describes the arguments.

    Raises:
        PluginError: a simulator does not exist.
        DataError: a row does not exist or is a single question, or a simulator's configuration cannot be used.
    """
    services = Services(long_context=lambda: read_long_context(find_bfcl(folder)))
    for row in select_rows(categories, ids=ids, folder=folder).rows():
        if row.values["check"] != "multi_turn":
            raise DataError(f"{row.id} is a single question; only conversations (multi_turn_…) can be shown")
        yield row.id, _conversation_lines(row.values, services)


def _conversation_lines(row: Mapping[str, JSON], services: Services) -> Iterator[str]:
    """Yield the lines of a conversation. Its expected calls are executed on fresh simulators.

    Raises:
        PluginError: there is no such simulator.
        DataError: a simulator's configuration cannot be used.
    """
    entry = GroundTruth.read(row)
    yield f"{entry.id}  ({', '.join(entry.simulators)})"

    backend = services.play(entry)
    replay = Player(backend)

    # Parameter names, to show positional arguments of the ground truth by name.
    operations = [item for simulator in backend.simulators.values() for item in simulator.operations().items()]
    parameters = {name: operation.parameters for name, operation in operations}

    for turn, items in enumerate(entry.turns):
        yield ""
        yield f"turn {turn}"
        messages = cast("list[list[Record]]", row["turns"])[turn]
        yield from (f"  {message['role']}  {message.get('content')}" for message in messages)
        if not messages:
            yield "  (this turn adds the functions that were held out)"
        for item in items:
            yield from _call_lines(services.read(item), item, replay, parameters)
        if not items:
            yield "  no call"


def _call_lines(reading: Reading, item: JSON, replay: Player, parameters: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the lines for one item of the ground truth: each call, its result, and the changes of the state.

    Executes the calls with `replay`. Long results and lists of changes are cut.
    """
    if not reading.calls:
        yield f"  call  {value_text(item)} (unreadable: {reading.problem or 'it contains no call'})"

    for call in reading.calls:
        # Calls of one conversation build on each other, so they are executed in order on the same simulators.
        step = replay.call(call)
        yield f"  call  {canonical_text([bind_positional(call, parameters.get(call.name, ()))])}"

        text = step.result.text
        cut_note = f"… ({len(text):,} characters)" if len(text) > _LONGEST_RESULT else ""
        yield f"    {'error' if step.result.error else 'result'}  {text[:_LONGEST_RESULT]}{cut_note}"

        for change in step.changes[:_MOST_CHANGES]:
            before = "nothing" if change.before is ABSENT else value_text(change.before)
            after = "nothing" if change.after is ABSENT else value_text(change.after)
            yield f"    state  {path_text(change.path)}: {before} → {after}"
        if len(step.changes) > _MOST_CHANGES:
            yield f"    state  and {len(step.changes) - _MOST_CHANGES:,} more changes"
