"""Recorded runs: a finished run as data set and as target, and the rows in flight when a run's process died.

`score()` runs over a recorded run like `evaluate()` over data. `RecordedRows` takes the rows from the columns
`inputs.…` of eval_results.jsonl. `RecordedAnswers` takes the answers from the journal, under the hash of their inputs,
so that later runs can reuse them, too.
"""

from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

from tunecheck._errors import EndpointError
from tunecheck._files import DatasetEntry, RunFile
from tunecheck._json import JSON, object_or_empty, text_or_none
from tunecheck._targets import CallContext, Row, Target, TargetOutput
from tunecheck.datasets._reading import Dataset, Scan
from tunecheck.datasets._sources import DatasetDefaults, ListSource
from tunecheck.pipeline._finished_rows import RowsView
from tunecheck.pipeline._journal_reader import JournalReader
from tunecheck.runs._store import Run

_INPUTS = "inputs."
"""Beginning of the results' columns that hold the data: `inputs.question`."""


def own_mapping(manifest: RunFile, name: str) -> dict[str, object]:
    """Return the column mapping that a run had for one evaluator alone; empty for the target.

    The target needs none, because its answers are recorded.
    """
    default = manifest.mapping.get("default", {})
    merged = {} if name == "target" else manifest.mapping.get(name, {})
    # The manifest has merged mappings. Entries of `default` must not count as the evaluator's own.
    return {key: value for key, value in merged.items() if key not in default or default[key] != value}


class RecordedRows(Dataset):
    """The rows of a finished run as a data set: the inputs that the results hold."""

    def __init__(self, rows: RowsView, described: DatasetEntry) -> None:
        """Make a data set of a run's rows, with the name, path and clusters of the run's data set."""
        declared = DatasetDefaults(cluster=described.cluster, primary=described.primary)
        super().__init__(ListSource([]), defaults=declared)

        self.name, self.path = str(described.name), None if described.path is None else Path(described.path)
        self._recorded = rows
        self._described = described

    def scan(self) -> Scan:
        """Return the recorded facts about the data, with the columns of the recorded rows."""
        # Rows may have different columns, so all of them are read.
        columns = {key.removeprefix(_INPUTS) for row in self._recorded for key in row if key.startswith(_INPUTS)}
        return Scan(len(self._recorded), self._described.sha256, frozenset(columns), True)

    def rows(self) -> Iterator[Row]:
        """Yield the rows with their recorded inputs, ids and fingerprints."""
        for index, row in enumerate(self._recorded):
            values = {key.removeprefix(_INPUTS): value for key, value in row.items() if key.startswith(_INPUTS)}
            yield Row(index, str(row["row_id"]), values, str(row["row_fingerprint"]))


class RecordedAnswers(Target):
    """Returns the recorded answer of each row; makes no calls."""

    def __init__(self, run: Run, rows: RowsView, recorded_target: dict[str, JSON]) -> None:
        """Open the run's journal to replay its answers; `recorded_target` describes the target that gave them."""
        self.name = str(recorded_target.get("name"))
        self._rows = rows
        self.simulated = bool(recorded_target.get("simulated"))

        self._run_id = run.id
        self._recorded_target = recorded_target

        self._answers = JournalReader(run.journal, by_row=True, evaluators=frozenset(), answers=True)
        # A run that stopped early lacks some rows, so a row's place is not its index in the journal.
        self._indices = self._answers.indices(len(rows))

    def input_hash(self, row: Row) -> str | None:
        """Return the hash that the answer was recorded under, so that later runs can still reuse it, or None."""
        return self._answers.answer_hash(self._indices[row.index])

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        """Return the recorded answer.

        Raises:
            EndpointError: The run has no answer to this row; the recorded error is given as the reason.
        """
        recorded = self._answers.answer(self._indices[row.index], self.input_hash(row))

        if recorded is None:
            # The row gets the same error and cause as in the recorded run.
            details = object_or_empty(self._rows[row.index].get("error.target"))
            reason = f": {details.get('type')}: {details.get('message')}" if details else ""
            failed = EndpointError(f"run {self._run_id} has no answer to this row{reason}")
            failed.cause = text_or_none(details.get("cause"))
            raise failed
        return recorded

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the target that gave the answers, or None if it had none."""
        return text_or_none(self._recorded_target.get("fingerprint"))

    def describe(self) -> dict[str, JSON]:
        """Return the manifest's description of the target that gave the answers."""
        return {key: value for key, value in self._recorded_target.items() if key not in ("fingerprint", "simulated")}

    async def close(self) -> None:
        """Close the journal."""
        self._answers.close()


def rows_in_flight(run: Run, data: Dataset, evaluators: Collection[str], concurrency: int, *, asked: bool) -> list[str]:
    """Return the ids of rows that may have been in flight when a run's process died.

    Rows are answered in order. So these are answered rows without a verdict of some evaluator, and with `asked`, at
    least the first `concurrency` rows without an answer. `asked` is true if the run has a target that answers rows.
    """
    names = frozenset(evaluators)
    # From the offset 0, so that all failures and verdicts of the run count as new.
    with closing(JournalReader(run.journal, by_row=True, evaluators=names, answers=True, since=0)) as journal:
        answered = {*journal.answered()}
        # A row on which the target failed is not in flight any more.
        failed = {row for row in range(max(answered, default=0) + concurrency) if journal.failure(row, "target")}
        done = answered | failed
        # Rows up to this index include at least `concurrency` rows that are not done.
        in_flight = {row for row in range(len(done) + concurrency) if asked and row not in done}

        for row in answered:
            if any(not journal.is_new(row, name) and not journal.failure(row, name) for name in evaluators):
                in_flight.add(row)
    return [row.id for row in data.rows() if row.index in in_flight]
