"""One run from beginning to end: its folder, its manifest, the engine, and its result files.

`Execution.run` takes these steps:

1.  Check columns, prices and settings, and read the run to compare with. An error here leaves no trace.
2.  Open the results of the run to reuse, if any, and create the folder of the new run. Or find the run to resume, and
    check that data, target and evaluators are the same.
3.  Lock the journal. If the run is resumed, open its own recorded results and those of its parent.
4.  Write run.json with the status `running`.
5.  With `on`, let other machines process the rows; their results come back through the journal.
6.  Process all rows in this process, with the recorded results where there are any.
7.  Write eval_results.jsonl, the table and metrics.json, then run.json with the status `finished` and checksums.

After step 3, an error is recorded in run.json (`stopped_by` of `_ending.py`), and the run can be resumed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from tunecheck._disk import sha256_of, write_file
from tunecheck._errors import ConfigurationError
from tunecheck._files import Accepted, DatasetEntry, EarlyStop, RunFile, Summary
from tunecheck._json import rare_collections
from tunecheck._messages import did_you_mean
from tunecheck._progress import progress_of
from tunecheck._records import Journal
from tunecheck._targets import Target
from tunecheck.calls._schemas import TOOL_COLUMNS
from tunecheck.datasets._reading import SOURCE_ID, TRIAL, Dataset, Scan
from tunecheck.endpoints._target import EndpointTarget, EndpointTargetBase
from tunecheck.evaluation._ending import Closable, EndpointFacts, EvaluationResult, now, run_engine, stopped_by
from tunecheck.evaluation._settings import RunSettings
from tunecheck.pipeline._costs import Budget
from tunecheck.pipeline._engine import Engine
from tunecheck.pipeline._finished_rows import MAX_COLUMNS, ResultRow, RowsView, write_table
from tunecheck.pipeline._mapping import check_binding
from tunecheck.pipeline._model_calls import CachedResults, RunCalls
from tunecheck.pipeline._plan import CallableTarget, Plan, Tally
from tunecheck.pipeline._results import Aggregator, ResultsWriter, trial_metrics
from tunecheck.pipeline._scoring import TOOLS, BoundEvaluator, MappingLayers, row_kind_reader
from tunecheck.runs import _manifest as manifests
from tunecheck.runs._store import Run, began_here, create_run, damage_error, dumps_readably, find_run, sign_manifest

if TYPE_CHECKING:
    from tunecheck.comparison._deciding import EarlyStopping
    from tunecheck.pipeline._journal_reader import JournalReader

DEFAULT_CONCURRENCY = 10
"""Calls at once if neither the caller nor the target sets a limit."""

_MOST_CALLS = 1_024
"""Maximum number of calls at once, whatever a configuration asks for."""

_WORTH_PROCESSES = 500
"""With this many rows or more, worker processes save more time than their start takes."""


@dataclass
class Execution:
    """A run's data, target, evaluators and settings; `run` can be called once."""

    dataset: Dataset
    target: Target | None
    evaluators: Sequence[BoundEvaluator]
    layers: MappingLayers
    settings: RunSettings
    gaps_are_errors: bool = True
    """True if a missing column that an evaluator needs is an error before the run; else it is an error in each row."""
    inherited: EarlyStop | None = None
    """The early decision of the run that the rows come from, if it stopped early."""
    deciding: EarlyStopping | None = field(init=False, default=None)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.settings.name or self.dataset.name

    @property
    def facts(self) -> EndpointFacts:
        """The endpoints that the run calls, and the facts learned about their APIs."""
        return EndpointFacts(self.target, self.evaluators)

    @rare_collections()
    def run(self) -> EvaluationResult:
        """Check everything, run, write the files, and return the result; a run to resume goes on in its folder.

        Raises:
            ConfigurationError: A check failed before the first call. Or the data cannot be read or grouped during the
                run, which is then recorded as stopped.
            RunError: The run was stopped; its journal has the finished work. Other errors that stop a run, such as
                SystemExit, are raised unchanged (see `stopped_by`).
        """
        scan = self.dataset.scan()
        self.check(scan)
        described = self._describe(scan)
        self.deciding = self._read_base()

        notes = [self.dataset.note] if self.dataset.note else []
        if self.gaps_are_errors:
            notes += self._tools_remark(scan.columns)

        names = ", ".join(evaluator.name for evaluator in self.evaluators if "result" in evaluator.signature)
        if names and self.settings.calls:
            choice = f"calls: {self.settings.calls}"
            notes.append(f"{choice} does not apply to {names}, as calls in `result` are read when the model answers")

        if self.settings.resume is None:
            return self._begin_run(described, scan, notes)
        run = find_run(self.settings.resume, self.settings.folder)
        return _Work(self, run, self._resumed_manifest(run, described), scan, notes).finish(None, resumed=True)

    def _begin_run(self, described: RunFile, scan: Scan, notes: list[str]) -> EvaluationResult:
        """Create the run's folder and run in it, with the answers and verdicts of the run to reuse, if any.

        `described` is the run's manifest without an id. Remarks on the reused run are added to `notes`.

        Raises:
            ConfigurationError: The run to reuse is not found, or the new run's folder cannot be made.
            RunError: The run to reuse is damaged, or the new run was stopped.
        """
        settings, earlier, source = self.settings, None, None
        if settings.reuse is not None:  # a damaged run must be refused before the new folder is created
            parent = find_run(settings.reuse, settings.folder)
            earlier = recorded_results(parent, described, notes, accept_damage=settings.accept_damage, by_row=False)
            # In another results folder, the run's id is not enough to find it again.
            at_home = parent.folder.resolve().parent == settings.folder.resolve()
            source = parent.id if at_home else str(parent.folder.resolve())

        run, created_ns = create_run(settings.folder, self.name)
        begun = replace(described, id=run.id, created=now(), created_ns=created_ns, parent=source)
        return _Work(self, run, sign_manifest(begun), scan, notes).finish(earlier, resumed=False)

    def _resumed_manifest(self, run: Run, described: RunFile) -> RunFile:
        """Return the manifest with which a run is resumed: its own, checked against the new settings.

        The manifest of another user's run gets this command's options and is not signed.

        Raises:
            ConfigurationError: Data, target, evaluators or another setting have changed since.
        """
        before = run.manifest()
        manifest = manifests.resume_manifest(run.id, before, described, self.target)

        if self.settings.base is None:  # the run no longer stops early, also if it is resumed once more
            command = {name: value for name, value in manifest.command.items() if name != "until_decided"}
            manifest = replace(manifest, command=command)

        with contextlib.suppress(ConfigurationError):  # a missing or damaged metrics.json is written anew
            failed = run.metrics().get("failed_rows") if before.status == "finished" else None
            manifest = replace(manifest, failed_before=failed) if isinstance(failed, int) else manifest

        return sign_manifest(manifest) if began_here(before) else replace(manifest, command=described.command)

    # -- checks before the run

    def check(self, scan: Scan) -> None:
        """Check columns, prices, metric names and grouping against the data set.

        Raises:
            ConfigurationError: A check failed; the text names the option.
        """
        self._check_columns(scan.columns)
        self.facts.check_prices(self.settings.max_cost, by_command=self.settings.command is not None)

        declared, cluster, primary = self.dataset.defaults, self.settings.cluster, self.settings.primary
        names = [evaluator.name for evaluator in self.evaluators]
        # A primary metric is an evaluator's name, or begins with it and a dot: `match` or `match.match`.
        if primary is not None and not any(f"{primary}.".startswith(f"{name}.") for name in names):
            raise ConfigurationError(f"no evaluator has the primary metric {primary!r}{did_you_mean(primary, names)}")

        grouping = [
            *(("group_by", column) for column in self.settings.grouping),
            ("group_key", declared.group_key),
            ("cluster", None if cluster == "none" else cluster or declared.cluster),
        ]

        for option, column in grouping:
            if column is not None and column not in scan.columns:
                hint = "; repeat the option for each column" if "," in column else did_you_mean(column, scan.columns)
                raise ConfigurationError(f"{option}: the data has no column {column!r}{hint}")

    def _check_columns(self, columns: frozenset[str]) -> None:
        """Check that columns can be bound to every parameter of the evaluators and of the target.

        Evaluators are checked only with `gaps_are_errors`. Else a parameter without a column is an error of each row.

        Raises:
            ConfigurationError: A required parameter has no column, or a mapping names an unknown one.
        """
        target = self.target
        for bound in self.evaluators if self.gaps_are_errors else ():
            check_binding(bound.bind, columns, frozenset() if target is None else target.columns)

        if isinstance(target, EndpointTarget):
            target.check_columns(columns)
        if isinstance(target, CallableTarget):
            check_binding(target.bind, columns, frozenset())

    def _tools_remark(self, columns: frozenset[str]) -> Iterator[str]:
        """Yield notes for the user if tool definitions in the data are not sent, or evaluators do not get them."""
        if isinstance(self.target, EndpointTargetBase) and not columns.isdisjoint(TOOL_COLUMNS):
            yield from filter(None, [self.target.endpoint.tools_note])

        # If the target returns the definitions, evaluators get them from its answer.
        if self.target is not None and TOOLS in (self.target.columns or ()):
            return

        # Without a mapping, evaluators get only a column with the parameter's own name.
        names = [bound.name for bound in self.evaluators if TOOLS in bound.signature]
        column = next((column for column in TOOL_COLUMNS if column in columns), None)
        if column and TOOLS not in columns and any(TOOLS not in self.layers[name] for name in names):
            yield (
                f"calls are not checked against the tools in the column {column!r}: to check them, give "
                f"--mapping '{TOOLS}=${{data.{column}}}'"
            )

    def _read_base(self) -> EarlyStopping | None:
        """Return the object that decides when the run may stop early, from its base run and these rows.

        None if the run does not stop early.
        """
        settings = self.settings
        if settings.base is None:
            return None
        from tunecheck.comparison._deciding import EarlyStopping
        from tunecheck.comparison._measuring import ComparisonSettings
        from tunecheck.results import AboutToRun

        # If the data holds the answers, the mapping names their columns, which do not belong to a row's content.
        mapping = manifests.describe_mapping(self.layers).values() if self.target is None else None
        rows = AboutToRun(self.dataset, mapping, settings.cluster, settings.primary)
        decide_by = ComparisonSettings(
            metrics=settings.decide_on,
            confidence=settings.confidence,
            margin=settings.margin,
            allow_simulated=settings.allow_simulated,
            seed=settings.seed,
        )
        names = [evaluator.name for evaluator in self.evaluators]
        return EarlyStopping(settings.base, decide_by, rows, names, settings.folder)

    def _describe(self, scan: Scan) -> RunFile:
        """Return the manifest of a new run: data set, target, evaluators, mapping, settings and versions."""
        dataset, declared, settings = self.dataset, self.dataset.defaults, self.settings
        path, primary = str(dataset.path) if dataset.path else None, settings.primary or declared.primary
        cluster = settings.cluster or declared.cluster or declared.group_key
        return RunFile(
            name=self.name,
            status="running",
            dataset=DatasetEntry(dataset.name, path, scan.sha256, scan.rows, cluster, primary),
            target=manifests.describe_target(self.target),
            evaluators=manifests.describe_evaluators(self.evaluators),
            mapping=manifests.describe_mapping(self.layers),
            group_by=settings.grouping,
            simulated=self.simulated,
            tags=dict(settings.tags or {}),
            command=manifests.kept_settings(settings.command or {}),
            versions=manifests.versions(),
        )

    @property
    def simulated(self) -> bool:
        """True if the target's answers are simulated."""
        return self.target is not None and self.target.simulated

    # -- the plan

    def plan(self, run_id: str, folder: Path | None = None, row_count: int | None = None) -> Plan:
        """Return the plan of the run with this id.

        `folder` is the run's folder, `row_count` the number of its rows. A task of a distributed run, which gets only
        some rows, has neither. By default, worker processes start only for CPU-bound evaluators and at least 500 rows.
        """
        settings, workers = self.settings, self.settings.workers
        if workers is None:
            pays = any(evaluator.cpu_bound for evaluator in self.evaluators) and (row_count or 0) >= _WORTH_PROCESSES
            workers = _cores() if pays else 0

        # The caller's number, else that of the endpoint's definition; an endpoint also keeps to its own limit.
        at_once = settings.concurrency or (self.target and self.target.concurrency) or DEFAULT_CONCURRENCY

        return Plan(
            run_id=run_id,
            rows=self.dataset.rows,
            target=self.target,
            evaluators=self.evaluators,
            concurrency=min(at_once, _MOST_CALLS, row_count or _MOST_CALLS),
            workers=min(workers, _cores()),
            # By default, an evaluator from a file of the workspace cannot end the run by a crash.
            isolates_files=settings.workers is None,
            evaluator_timeout=settings.evaluator_timeout,
            fail_on_evaluator_errors=settings.fail_on_evaluator_errors,
            row_kind=row_kind_reader(self.layers),
            group_column=self.dataset.defaults.group_key,
            row_count=row_count,
            folder=folder,
            calls=settings.calls,
            order=None if self.deciding is None else self.deciding.begin(self.target),
        )

    @property
    def closing(self) -> dict[str, Closable]:
        """The target and the evaluators that ask models, as far as they can be closed, by their names in notes."""
        models = {f"evaluator {bound.name!r}": bound.function for bound in self.evaluators if bound.asks_models}
        opened_by_name = {"the target": self.target, **models}
        return {name: cast("Closable", opened) for name, opened in opened_by_name.items() if hasattr(opened, "close")}


def _cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def recorded_results(
    source: Run, manifest: RunFile, notes: list[str], *, accept_damage: bool, by_row: bool, since: int = sys.maxsize
) -> JournalReader:
    """Open the recorded results of `source` that are still valid for the run that `manifest` describes.

    `by_row` finds them by row index, else by content. Remarks are added to `notes`. Records from the offset `since` on
    count as made in this session.

    Raises:
        RunError: Records are damaged, and damage is not accepted.
        ConfigurationError: The journal is missing, or a later version wrote it.
    """
    from tunecheck.pipeline._journal_reader import JournalReader

    before = source.manifest()
    valid = manifests.reusable(before, manifest)
    notes += valid.notes

    # The manifest has the number of records, so that a loss at the end of the journal is found, too.
    least = before.records or 0
    recorded = JournalReader(
        source.journal, by_row=by_row, evaluators=valid.evaluators, answers=valid.answers, at_least=least, since=since
    )

    loss = recorded.describe_loss(before.row_count or 0)
    if loss is not None:
        if not accept_damage:
            recorded.close()
            raise damage_error(source, loss)
        notes.append(f"run {source.id} is damaged: {loss}")
    return recorded


class _Work(msgspec.Struct):
    """A run in progress in its folder; `notes` are remarks for the reader of its results."""

    execution: Execution
    run: Run
    manifest: RunFile
    scan: Scan
    notes: list[str]

    def finish(self, earlier: JournalReader | None, *, resumed: bool) -> EvaluationResult:
        """Process all rows in the run's folder, which is locked meanwhile, and return the result.

        `earlier` has the recorded results of a run that a new run reuses. A `resumed` run has results in its own
        journal, and finds its parent's itself. An error is recorded in the manifest.
        """
        if began_here(self.manifest):
            self.execution.facts.recall(self.manifest.api)
        settings = self.execution.settings
        path = self.run.journal.absolute()  # evaluators may change the working folder

        with contextlib.ExitStack() as opened:
            # Keep the journal's lock until the last file is written.
            journal = opened.enter_context(contextlib.closing(Journal(path, at_least=self.manifest.records or 0)))
            # This comes first, because a damaged journal must be refused before anything is written.
            cached = self._cached_results(journal) if resumed else CachedResults(parent=earlier)
            opened.callback(cached.close)
            # From here on, an error is recorded in the manifest.
            opened.enter_context(self._ending(journal))
            self.run.write(replace(self.manifest, status="running", started=now()))

            if settings.on is not None:
                since = path.stat().st_size
                # Tasks on other machines process the unfinished rows; their records come back into the journal.
                engine = settings.on(self._plan(), journal, cached, self.execution)
                run_engine(engine, {}, progress_of(settings.progress, self.execution.name))
                notes = [*self.notes, *engine.tally.notes, *engine.tally.sentences(settings.evaluator_timeout)]
                cached = self._cached_results(journal, since)  # with the results of the tasks
                self.notes = notes  # without remarks on the tasks' results: they are new, not reused
                opened.callback(cached.close)
            return self._run_here(journal, cached, opened)

    @contextlib.contextmanager
    def _ending(self, journal: Journal) -> Iterator[None]:
        """Record in the manifest any error that ends the run early, also Ctrl-C, and raise it with advice to resume."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - it is raised again, or an error that explains it is
            manifest = replace(self.manifest, records=journal.sync())
            stopped = stopped_by(self.run, self.execution.facts.added_to(manifest), error)
            if stopped is error:
                raise
            raise stopped from error

    def _cached_results(self, journal: Journal, since: int = sys.maxsize) -> CachedResults:
        """Return the results that a resumed run may reuse, from its own journal and from its parent's.

        Records from the offset `since` on count as made in this session, not as reused. If records are lost and that is
        accepted, the journal records it.
        """
        accept = self.execution.settings.accept_damage

        own = recorded_results(self.run, self.manifest, self.notes, accept_damage=accept, by_row=True, since=since)
        parent = self._parent()
        if own.lost:
            journal.append(Accepted(own.lost))
        return CachedResults(own, parent)

    def _parent(self) -> JournalReader | None:
        """Return the recorded results of the run that this run reuses; None without one, or if it cannot be read.

        A note says why it cannot be read.
        """
        manifest = self.manifest
        if not manifest.parent:
            return None

        # A path (not an id) in another user's run.json could name any folder, so it is not read.
        elsewhere = Path(manifest.parent).name != manifest.parent and not began_here(manifest)
        source = None
        with contextlib.suppress(ConfigurationError):
            source = None if elsewhere else find_run(manifest.parent, self.run.folder.parent)

        if source is not None:
            accept = self.execution.settings.accept_damage
            return recorded_results(source, manifest, self.notes, accept_damage=accept, by_row=False)

        why = "another user's run.json names this run, so it is not read" if elsewhere else "the run is no longer there"
        self.notes.append(f"no results are reused from run {manifest.parent}: {why}")
        return None

    def _plan(self) -> Plan:
        return self.execution.plan(self.run.id, self.run.folder.absolute(), self.scan.rows)

    def _run_here(self, journal: Journal, cached: CachedResults, opened: contextlib.ExitStack) -> EvaluationResult:
        """Process all rows in this process, write the result files, and return the result."""
        execution, settings = self.execution, self.execution.settings
        # Evaluators may change the working folder, so the path is absolute. After an error, the file is removed.
        results = ResultsWriter(self.run.results.absolute())
        opened.callback(results.abandon)
        grouping = ["row_kind", *settings.grouping]
        aggregator = opened.enter_context(contextlib.closing(Aggregator(execution.evaluators, grouping)))

        calls = RunCalls(self.run.id, journal, cached, Budget(settings.max_cost))
        engine = Engine(self._plan(), journal, results, aggregator, cached, calls)
        # The notes of the data, the evaluators and the target are known before the run.
        remarks = (note for evaluator in execution.evaluators for note in evaluator.notes)
        engine.tally.notes += dict.fromkeys((*self.notes, *remarks))
        engine.tally.notes += execution.target.notes if execution.target is not None else ()
        run_engine(engine, execution.closing, progress_of(settings.progress, self.execution.name))

        tally = engine.tally
        # The journal gets the decision before the results are written, so that readers know which rows count.
        deciding = execution.deciding
        decision = execution.inherited if deciding is None else deciding.finish(cached.answered(), journal)
        rows = results.finish()
        tally.notes += self._notes_after(tally, calls.masked, decision)

        summary = self._summary(rows, aggregator, calls, tally, decision)
        loaded = rows.loaded()
        self._write_files(summary, loaded, results.columns, journal)
        return EvaluationResult(self.run, summary, loaded, tally)

    # -- files and notes after the run

    def _notes_after(self, tally: Tally, masked: int, decision: EarlyStop | None) -> Iterator[str]:
        """Yield the notes that the run itself gives: remarks, learned facts, and the early decision if any.

        `masked` is the number of answers with a masked secret.
        """
        yield from tally.sentences(self.execution.settings.evaluator_timeout, masked)
        yield from dict.fromkeys(self.execution.facts.sentences())
        if decision is not None:
            from tunecheck.comparison._wording import sentences_of

            # A run that judges recorded answers again has the decision of the run that gave them.
            decided_by = str(self.manifest.parent) if self.execution.deciding is None else self.run.id
            yield from sentences_of(decision, Run(self.run.folder.parent / decided_by).resuming(all_rows=True))

    def _summary(
        self, rows: RowsView, aggregator: Aggregator, calls: RunCalls, tally: Tally, decision: EarlyStop | None
    ) -> Summary:
        """Return the content of metrics.json: metrics overall and by group, costs, notes and the early decision."""
        metrics, by_group = aggregator.metrics(rows)
        # With `repeat`, the rows are trials of items.
        if {TRIAL, SOURCE_ID} <= self.scan.columns:
            metrics |= trial_metrics(rows, self.execution.evaluators)

        errors, read = aggregator.own.errors, tally.read_calls.result(metrics)
        notes = [*tally.notes, *(read.sentences() if read is not None else ())]
        failed = [f"__aggregate__ of evaluator {n!r} failed: {e.type}: {e.message}" for n, e in errors.items()]

        return Summary(
            metrics=metrics,
            by={column: dict(values) for column, values in by_group.items()},
            rows=tally.finished,
            failed_rows=tally.failed,
            usage=calls.usage(),
            simulated=calls.simulated or self.execution.simulated,
            notes=[*notes, *failed],
            aggregate_errors=errors,
            decision=decision or UNSET,
            calls=read or UNSET,
        )

    def _write_files(self, summary: Summary, rows: Sequence[ResultRow], columns: list[str], journal: Journal) -> None:
        """Write the table and metrics.json, then mark the run as finished in the manifest, with checksums."""
        run = self.run
        write_table(run.table, columns, rows)
        if len(columns) > MAX_COLUMNS:
            summary.notes.append(f"{run.table.name} has only the first {MAX_COLUMNS:,} of {len(columns):,} columns")

        write_file(run.metrics_file, dumps_readably(summary))

        # run.json comes last: a finished run has all files, and their checksums show later damage.
        files = (run.results, run.table, run.metrics_file)
        ended = replace(
            self.manifest,
            status="finished",
            ended=now(),
            row_count=summary.rows,
            simulated=summary.simulated,
            records=journal.sync(),
            sha256={path.name: sha256_of(path) for path in files},
            sizes={path.name: path.stat().st_size for path in files},
            decision=summary.decision,
        )
        run.write(self.execution.facts.added_to(ended))
