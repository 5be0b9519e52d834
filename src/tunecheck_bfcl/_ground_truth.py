"""The ground truth of entries as conversations: questions, calls, results, and changes of the state.

Lines of a conversation, whose expected calls are executed on fresh simulators:

    multi_turn_base_0  (TwitterAPI, GorillaFileSystem)

    turn 0
      user  Move 'final_report.pdf' within document directory to 'temp' directory in document. …
      call  mkdir(dir_name="temp")
        result  None
        state  GorillaFileSystem.root.workspace.document.temp: nothing → {}
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial

from tunecheck import DataError
from tunecheck.calls import Reading, bind_positional, canonical_text
from tunecheck.episodes import ABSENT, GroundTruth, Player, Services, path_text, value_text
from tunecheck.plugins import JSON, did_you_mean
from tunecheck_bfcl._data.files import BfclFiles, category_of, named_categories
from tunecheck_bfcl._data.prompts import read_long_context
from tunecheck_bfcl._scoring import CheckRow, read_entries

_MOST_CHANGES = 20
"""The most changes of the state that are shown for a call."""

_LONGEST_RESULT = 2_000
"""The most characters of a result that are shown."""


def category_rows(files: BfclFiles, categories: str) -> Iterator[CheckRow]:
    """Yield the rows of comma-separated categories and groups."""
    for category in named_categories(categories):
        yield from read_entries(files, category).values()


def rows_with_ids(files: BfclFiles, ids: Sequence[str]) -> Iterator[CheckRow]:
    """Yield the rows with these ids, in the order of the ids.

    Raises:
        DataError: an id belongs to no row of BFCL.
    """
    # Several ids of one category read its files once.
    read = cache(partial(read_entries, files))
    for row_id in ids:
        category = category_of(row_id)
        if category is None:
            raise DataError(f"{row_id!r} is not the id of a BFCL row; ids look like multi_turn_base_0")
        if row_id not in read(category):
            raise DataError(f"BFCL has no row {row_id!r}{did_you_mean(row_id, read(category))}")
        yield read(category)[row_id]


def ground_truths(rows: Iterable[CheckRow], files: BfclFiles) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the id of each row with the lines of the row's ground truth.

    Raises:
        PluginError: a simulator does not exist.
        DataError: a simulator's configuration cannot be used, or a row is a single question.
    """
    services = Services(long_context=lambda: read_long_context(files))
    for row in rows:
        if row["check"] != "multi_turn":
            raise DataError(f"{row['id']} is a single question; only conversations (multi_turn_…) can be shown")
        yield str(row["id"]), _conversation_lines(row, services)


def _conversation_lines(row: CheckRow, services: Services) -> Iterator[str]:
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
        yield from _message_lines(row, turn)
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


def _message_lines(row: CheckRow, turn: int) -> Iterator[str]:
    """Yield a line for each message of a turn. If there is none, the line says that the turn only adds functions."""
    turns = row.get("question")
    messages = turns[turn] if isinstance(turns, list) and turn < len(turns) else []
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict):
            yield f"  {message.get('role')}  {message.get('content')}"
    if not messages:
        yield "  (this turn adds the functions that were held out)"
