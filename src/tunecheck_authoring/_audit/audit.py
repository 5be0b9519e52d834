"""Go through a data set once, row by row, and collect its probable mistakes.

For each row in this order:

1. the problems that `check` found
2. arguments and requests (`values.py`)
3. rows that pass without a call, renamed originals and repeated calls
4. the same or similar wording in an earlier row, and in the training data (`KnownRows`)

After the last row, rows that all given runs fail alike (`failing_alike`).

**Wording.** A row's words are cut into shingles of three neighbouring words: "book a room", "a room in". Its sketch has
the 64 smallest hashes of its shingles. Two rows are compared if one of their eight smallest hashes is equal. They are
similar if at least 80% of their wording is common, by the estimate of MinHash. So the time for a row does not depend on
the number of rows.

| the row and an earlier row of the data set | finding |
|---|---|
| same words, same functions, other calls | `conflicting_answers` |
| same words, same functions, same calls | `near_duplicate` |
| similar words | `near_duplicate` |

Rows of one declared cluster, and chats that continue one another, may be similar.

| the row and a training row | finding |
|---|---|
| same words | `in_training_data`, sure |
| similar words | `in_training_data`, likely |
| other words, the same two or more calls | `in_training_data`, look |
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from tunecheck import Run
from tunecheck.calls import FunctionCall, canonical_text
from tunecheck.datasets import SOURCE_ID, TRIAL
from tunecheck.episodes import ABSENT, Change
from tunecheck.formats import read_calls
from tunecheck.pipeline import VerdictReader, counted_metrics, evidence_of
from tunecheck.plugins import dumps
from tunecheck.runs import value_reader
from tunecheck_authoring._audit.checks import CheckedRow, EntryCheck, columns_of
from tunecheck_authoring._audit.dialogue import AuditFinding, Dialogue, DialogueReader, Replacement, found, texts_in
from tunecheck_authoring._audit.values import request_findings, value_findings, words

_SHINGLE = 3
"""Words in a shingle."""
_SKETCH = 64
"""The most hashes in a sketch."""
_KEYS = 8
"""Two rows are compared if they share one of this many smallest hashes of their sketches."""
_NEAR = 0.8
"""The least share of common wording of similar rows."""
_MOST_TOGETHER = 20
"""The most rows of one key that are compared: a key that all rows share distinguishes none."""
_SHORTEST_PATH = 2
"""The fewest calls that make two rows alike in spite of other words."""
_FEWEST_WORDS = 6
"""Requests with fewer words are similar by chance, so they get no sketch."""

Sketch: TypeAlias = "array[int]"


class KnownRow(msgspec.Struct, frozen=True):
    """The digest of a row for comparisons: its messages, functions and calls, and a sketch of its wording.

    `words_digest` covers all messages, `tools_digest` the functions and the start state, `path` the expected calls.
    `user_beginnings` and `other_beginnings` have a digest of each beginning of the user's and the other messages.
    `sketch` is empty for a short row. Rows of one `cluster` derive from one another by declaration, so they may have
    similar words.
    """

    name: str
    words_digest: bytes
    tools_digest: bytes
    path: tuple[str, ...]
    sketch: Sketch
    user_beginnings: tuple[bytes, ...]
    other_beginnings: tuple[bytes, ...]
    cluster: object = None

    def shares_cluster(self, other: KnownRow) -> bool:
        """Return True if both rows belong to one declared cluster."""
        return self.cluster is not None and self.cluster == other.cluster

    def continues(self, other: KnownRow) -> bool:
        """Return True if this row begins with the other row's whole chat."""
        return other.user_beginnings[-1] in self.user_beginnings and other.other_beginnings[-1] in self.other_beginnings


class KnownRows(msgspec.Struct):
    """Rows indexed by wording and calls, so that each new row is compared with few others."""

    _by_words: dict[bytes, KnownRow] = msgspec.field(default_factory=dict)
    _by_path: dict[tuple[str, ...], KnownRow] = msgspec.field(default_factory=dict)
    _by_key: dict[int, list[KnownRow]] = msgspec.field(default_factory=lambda: defaultdict(list))

    def add(self, row: KnownRow) -> None:
        """Add a row to the indexes.

        A path of one call says too little to be indexed. A full key drops its oldest row.
        """
        self._by_words.setdefault(row.words_digest, row)
        if len(row.path) >= _SHORTEST_PATH:
            self._by_path.setdefault(row.path, row)

        for key in row.sketch[:_KEYS]:
            together = self._by_key[key]
            together.append(row)
            # A key that many rows share would make the time quadratic.
            del together[:-_MOST_TOGETHER]

    def repeated(self, row: KnownRow) -> Iterator[AuditFinding]:
        """Yield the findings if the row repeats an added row: conflicting calls, equal wording, or similar wording.

        Rows of one declared cluster, and a row that continues the other's chat, may share their wording.
        """
        same = self._by_words.get(row.words_digest)
        if same is None:
            near = self._near(row, exclude_related=True)
            if near is not None:
                evidence = f"{near[0].name} contains {near[1]:.0%} of this row's wording"
                yield found(row.name, "near_duplicate", evidence, fix=_DROP)
        elif same.tools_digest != row.tools_digest:
            return  # the same words with other functions are another test
        elif same.path != row.path:
            evidence = f"{same.name} has the same request and functions, but expects {_path_text(same.path)}"
            yield found(row.name, "conflicting_answers", f"{evidence}; this row expects {_path_text(row.path)}")
        # Rows of one declared cluster may repeat words and calls, but equal words with other calls conflict even there.
        elif not same.shares_cluster(row):
            yield found(row.name, "near_duplicate", f"{same.name} has the same wording and the same calls", fix=_DROP)

    def leaked(self, row: KnownRow) -> Iterator[AuditFinding]:
        """Yield the finding if a test row is among these training rows: by its wording, or only by its calls."""
        same = self._by_words.get(row.words_digest)
        if same is not None:
            evidence = f"training row {same.name} has the same wording"
            yield found(row.name, "in_training_data", evidence, fix=_DROP, certainty="sure")
        elif (near := self._near(row)) is not None:
            evidence = f"training row {near[0].name} contains {near[1]:.0%} of this row's wording"
            yield found(row.name, "in_training_data", evidence, fix=_DROP)
        elif row.path in self._by_path:
            evidence = f"training row {self._by_path[row.path].name} has the same calls with another wording"
            yield found(row.name, "in_training_data", f"{evidence}: {_path_text(row.path)}", certainty="look")

    def _near(self, row: KnownRow, *, exclude_related: bool = False) -> tuple[KnownRow, float] | None:
        """Return the most similar known row and its share of common wording, or None if the share is below `_NEAR`.

        With `exclude_related`, rows that continue one another or belong to one declared cluster are not compared.
        """
        # Each row once, because several keys may lead to it
        others = [*{id(other): other for key in row.sketch[:_KEYS] for other in self._by_key.get(key, ())}.values()]

        # A chat may be stored as several rows, each of which begins with the rows before it.
        if exclude_related:
            others = [other for other in others if not (row.continues(other) or other.continues(row))]
            others = [other for other in others if not other.shares_cluster(row)]

        measured = [(_shared_wording(row.sketch, other.sketch), other) for other in others]
        share, other = max(measured, key=lambda each: each[0], default=(0.0, None))
        return (other, share) if other is not None and share >= _NEAR else None


_DROP = "leave out the row"


def known_row(dialogue: Dialogue, cluster: object = None) -> KnownRow:
    """Return a row's digest for comparisons. `cluster` is the value of its declared cluster column, if there is one."""
    request_words = words(" ".join(dialogue.asked))
    start = " ".join(texts_in(dialogue.start))

    # A request with fewer words than a shingle is one shingle.
    shingles = {" ".join(request_words[at : at + _SHINGLE]) for at in range(max(1, len(request_words) - _SHINGLE + 1))}
    hashes = (int.from_bytes(_digest(each, 8), "big") for each in shingles)
    sketch = heapq.nsmallest(_SKETCH, hashes) if len(request_words) >= _FEWEST_WORDS else ()

    defined = {name: dialogue.tools.spelled(name) for name in sorted(dialogue.tools)}
    tools = [f"{name} {dumps(dict(each.parameters)).decode()}" for name, each in defined.items() if each is not None]

    return KnownRow(
        dialogue.name,
        words_digest=_digest("\n".join([*request_words, *dialogue.told])),
        tools_digest=_digest("\n".join(tools) + start),
        path=dialogue.path,
        sketch=array("Q", sketch),
        user_beginnings=_beginnings(dialogue.asked),
        other_beginnings=_beginnings(dialogue.told),
        cluster=cluster,
    )


def _beginnings(texts: Sequence[str]) -> tuple[bytes, ...]:
    """Return a digest of no text, of the first text, of the first two texts …"""
    state = blake2b(digest_size=16)
    digests = [state.digest()]
    for text in texts:
        state.update(text.encode("utf-8", "replace") + b"\0")
        digests.append(state.digest())
    return tuple(digests)


def _shared_wording(first: Sketch, second: Sketch) -> float:
    """Estimate the share of common shingles of two rows from their smallest hashes (MinHash)."""
    smallest = heapq.nsmallest(_SKETCH, {*first, *second})
    return len({*first} & {*second} & {*smallest}) / len(smallest) if smallest else 0.0


def _digest(text: str, size: int = 16) -> bytes:
    """Return a hash of a text with this many bytes."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).digest()


def _path_text(path: Sequence[str]) -> str:
    """Return the expected calls as a text for a finding."""
    return ", ".join(path) or "none"


FEWEST_RUNS = 2
"""The fewest runs that can show that all runs fail alike."""


class Audit(msgspec.Struct, frozen=True):
    """The findings, worst first; `idle` counts the rows that an agent passes without calling a function."""

    rows: int
    findings: Sequence[AuditFinding]
    idle: int

    @property
    def flagged(self) -> set[str]:
        """The ids of the rows with a sure or likely finding."""
        return {finding.id for finding in self.findings if finding.certainty != "look"}

    @property
    def unread(self) -> set[str]:
        """The ids of the rows that could not be checked completely."""
        return {finding.id for finding in self.findings if finding.kind == "not_looked_at"}


def audit(
    rows: Iterable[CheckedRow], reader: DialogueReader, *, training: Iterable[Dialogue] = (), runs: Sequence[Run] = ()
) -> Audit:
    """Return the probable mistakes in these rows. The time is proportional to their number.

    Args:
        rows: The rows with their problems, from `checked_rows`.
        reader: Reads the rows as dialogues.
        training: Training rows; none of them may be among `rows`.
        runs: Runs that tested these rows.
    """
    # Training rows are compared with the tested rows only, not with each other.
    trained, tested = KnownRows(), KnownRows()
    for each in training:
        trained.add(known_row(each))

    names: set[str] = set()
    findings: list[AuditFinding] = []
    count = idle = 0
    for row in rows:
        count += 1
        names.add(row.name)
        problems = (finding for finding in row.findings if not finding.is_remark)
        findings += (found(each.entry, each.problem, each.full_text, each.turn) for each in problems)

        dialogue = reader.read(row)
        # A row that cannot be read is no clean row, so it gets a finding.
        if isinstance(dialogue, str):
            findings.append(found(row.name, "not_looked_at", dialogue))
            continue

        idle += 1 if passes_idle(row, dialogue) else 0
        findings += _row_findings(row, dialogue)

        known = known_row(dialogue, row.values.get(reader.cluster or ""))
        findings += [*tested.repeated(known), *trained.leaked(known)]
        tested.add(known)

    findings += failing_alike(runs, names)
    return Audit(count, sorted(findings, key=lambda finding: finding.rank), idle)


def _row_findings(row: CheckedRow, dialogue: Dialogue) -> Iterator[AuditFinding]:
    """Yield the findings about a row that need no other row: values, requests and needless calls.

    Parts of the row that cannot be checked are findings, too.
    """
    if dialogue.unknown is not None:
        yield found(row.name, "not_looked_at", dialogue.unknown)

    yield from value_findings(dialogue)
    yield from request_findings(dialogue)

    if dialogue.calls and passes_idle(row, dialogue):
        evidence = "only the final state is judged, and the expected calls leave the state unchanged"
        yield found(row.name, "passes_idle", evidence, fix="judge the calls too: leave out final_state_only")

    if row.replayed is None:
        return
    yield from renamed_originals(row.name, row.replayed)
    try:
        yield from repeated_calls(row.name, row.replayed)
    except Exception as error:  # noqa: BLE001 - a user's simulator may fail on calls that no other check makes
        reason = f"repeated calls, because a simulator failed: {type(error).__name__}: {error}"
        yield found(row.name, "not_looked_at", reason)


def passes_idle(row: CheckedRow, dialogue: Dialogue) -> bool:
    """True if an agent passes the row without calling a function.

    If only the final state is judged, the expected calls must not change the state. Otherwise the row must expect no
    call, and nothing about it may be unknown.
    """
    if row.replayed is not None and row.replayed.judging.final_state_only:
        return row.replayed.start == row.replayed.end
    # BFCL's rows with the check `relevance` list no calls, but need one.
    return not (dialogue.calls or dialogue.unknown or row.values.get("check") == "relevance")


def repeated_calls(name: str, check: EntryCheck) -> Iterator[AuditFinding]:
    """Yield a finding for each repeated call of a turn that can be left out without any effect.

    `check` has the replay of the row.
    """
    played = check.played
    for at, each in enumerate(played):
        earlier = [call for call in played[:at] if call.turn == each.turn and call.step.call == each.step.call]
        # A call without an effect of its own may still be needed: it may count, or open a session.
        if earlier and not each.step.changes and not each.step.result.error and _can_be_left_out(check, at):
            evidence = f"the turn repeats {each.text}, and the repetition changes nothing"
            drop = Replacement(each.turn, each.text, None)
            yield found(name, "superfluous_call", evidence, each.turn, fix=f"leave out {each.text}", replacement=drop)


def renamed_originals(name: str, check: EntryCheck) -> Iterator[AuditFinding]:
    """Yield a finding for each call that renames an original after its turn has copied it: the copy may be meant.

    For example `cp(a.txt, archive)`, then `mv(a.txt, b.txt)` in the first folder. `check` has the replay of the row.
    """
    for at, renaming in enumerate(check.played):
        earlier = [call for call in check.played[:at] if call.turn == renaming.turn]
        added = [(call, change) for call in earlier for change in call.step.changes if change.before is ABSENT]

        for gone in renaming.step.changes:
            # A renaming deletes an item, and adds the same item under another name in the same place.
            if gone.after is not ABSENT or not _is_renamed(gone, renaming.step.changes):
                continue
            # A copy is a new item with the same name in another place.
            copies = [(call, new) for call, new in added if new.path[-1] == gone.path[-1] and new.path != gone.path]
            if copies and copies[-1][1].after == gone.before:
                evidence = f"{copies[-1][0].text} copies {gone.path[-1]!r}, then {renaming.text} renames the original"
                yield found(name, "renamed_original", evidence, renaming.turn, fix="rename the copy instead?")


def _is_renamed(deletion: Change, changes: Sequence[Change]) -> bool:
    """True if the deleted item appears under another name in the same place."""
    additions = (change for change in changes if change.before is ABSENT and change.path[:-1] == deletion.path[:-1])
    return any(change.after == deletion.before for change in additions)


def _can_be_left_out(check: EntryCheck, at: int) -> bool:
    """True if all other calls have the same results, and lead to the same state, without the call number `at`.

    The other calls are repeated on new simulators.
    """
    others = [each for number, each in enumerate(check.played) if number != at]
    shorter = check.replay()
    results = [shorter.call(each.step.call).result.text for each in others]
    return results == [each.step.result.text for each in others] and shorter.state == check.end


class _Failure(msgspec.Struct, frozen=True):
    """A run's wrong answer to a row, and the cause; equal calls have equal texts."""

    answer: str
    cause: str
    evidence: str


def failing_alike(runs: Sequence[Run], names: Container[str]) -> Iterator[AuditFinding]:
    """Yield a finding for each row in `names` that all runs failed: most with equal calls, or all for the same cause.

    A row that a run passed or did not test gets no finding. With one run, there are no findings.
    """
    failed: dict[str, list[_Failure]] = defaultdict(list)

    for run in runs:
        for name, failure in _failures(run):
            failed[name].append(failure)

    for name, failures in failed.items():
        if name in names and len(failures) == len(runs) >= FEWEST_RUNS:
            yield from _shared_failure(name, failures)


def _failures(run: Run) -> Iterator[tuple[str, _Failure]]:
    """Yield the ids of the rows that a run failed, each with its failure. Only the first trial of a row counts."""
    manifest = run.manifest()
    response = value_reader(manifest, "response", ("response",))
    primaries = {name: entry.primary for name, entry in manifest.evaluators.items()}
    readers = [VerdictReader(name, metric) for name, metric in counted_metrics(run.rows(), primaries).items()]

    for row in run.rows():
        # Further trials repeat the same question, and would count a run several times.
        if row.get(f"inputs.{TRIAL}") in (None, 1) and any(reader.word(row) == "fail" for reader in readers):
            data, target = columns_of(row, "inputs."), columns_of(row, "outputs.")
            name = str(data.get(SOURCE_ID, row.get("row_id")))
            # The order of calls and of arguments makes no other answer.
            calls = sorted(read_calls(response(data, target)).calls, key=lambda call: call.name)
            answer = [FunctionCall(call.name, dict(sorted(call.arguments.items()))) for call in calls]
            yield name, _Failure(canonical_text(answer), str(row.get("cause") or ""), evidence_of(row))


def _shared_failure(name: str, failures: Sequence[_Failure]) -> Iterator[AuditFinding]:
    """Yield a finding if most runs gave the same wrong answer, or all runs failed for the same cause.

    If several models give one answer, the ground truth may be wrong. `failures` has one failure of each run.
    """
    [(answer, count)] = Counter(each.answer for each in failures).most_common(1)
    first = next(each for each in failures if each.answer == answer)
    why = f"{first.cause or 'no cause known'}{f': {first.evidence}' if first.evidence else ''}"

    if answer and 2 * count > len(failures) and count > 1:
        runs_text = f"all {count} runs" if count == len(failures) else f"all {len(failures)} runs fail; {count} of them"
        yield found(name, "fails_alike", f"{runs_text} answer {answer} ({why})", fix=f"is {answer} right?")
    elif first.cause and all((each.cause, each.evidence) == (first.cause, first.evidence) for each in failures):
        yield found(name, "fails_alike", f"all {len(failures)} runs fail for the same cause ({why})", certainty="look")
