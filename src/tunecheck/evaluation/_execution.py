"""One run from beginning to end: its folder, its manifest, the engine, and the files it leaves."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import UNSET
from msgspec.structs import replace

from tunecheck._disk import sha256_of, write_file
from tunecheck._errors import ConfigurationError, RunError
from tunecheck._files import DatasetEntry, Decision, MetricsFile, RunFile
from tunecheck._messages import did_you_mean
from tunecheck._notebook import NotebookProgress, in_notebook
from tunecheck._progress import ProgressBar, ProgressCallback
from tunecheck._targets import Target
from tunecheck.datasets._reading import Dataset, Scan
from tunecheck.datasets._repeated import SOURCE_ID, RepeatedDataset
from tunecheck.evaluation._arguments import Keeping
from tunecheck.evaluation._columns import check_columns, tools_remark
from tunecheck.evaluation._ending import Finished, now, stopped_by
from tunecheck.evaluation._facts import EndpointFacts
from tunecheck.evaluation._loop import Closable, run_engine
from tunecheck.evaluation._remote import RemoteEngine, RunnerFactory, TaskRecipe, spent_before
from tunecheck.pipeline._aggregate import Aggregator, trial_metrics
from tunecheck.pipeline._chunks import ChunkSource, SharedSettings
from tunecheck.pipeline._costs import Budget
from tunecheck.pipeline._engine import Engine
from tunecheck.pipeline._finished_rows import RowsView
from tunecheck.pipeline._journal import CachedResults, Journal, Recorded
from tunecheck.pipeline._mapping import MappingLayers, row_kind_reader
from tunecheck.pipeline._model_calls import RunCalls
from tunecheck.pipeline._plan import Pace, Plan, Tally
from tunecheck.pipeline._results import MAX_COLUMNS, ResultsWriter, columns_of, write_azure_results, write_table
from tunecheck.pipeline._scoring import BoundEvaluator
from tunecheck.runs._authorship import began_here, signed
from tunecheck.runs._manifest import (
    describe_evaluators,
    describe_mapping,
    describe_target,
    kept_settings,
    resumed,
    reusable,
    versions,
)
from tunecheck.runs._store import Run, create_run, dumps_readably, find_run
from tunecheck.runs._verify import damaged

if TYPE_CHECKING:
    from tunecheck.comparison._deciding import Deciding, Question

DEFAULT_CONCURRENCY = 10


@dataclass(frozen=True)
class RunsElsewhere:
    """Where the rows of a run are answered and judged: `runner` is made for a recipe, which `recipe` is part of."""

    runner: RunnerFactory
    recipe: Callable[[], Execution]


@dataclass
class Execution:
    """Everything that a run is made of, ready to be run once."""

    dataset: Dataset
    target: Target | None
    evaluators: Sequence[BoundEvaluator]
    layers: MappingLayers
    pace: Pace
    keeping: Keeping
    gaps_are_errors: bool = True
    """Whether what some parameter needs and no row has is an error before anything runs; else it is one of the row."""
    question: Question | None = None
    """What the run decides, so that it may stop before all rows are asked."""
    on: RunsElsewhere | None = None
    """Where rows are answered and judged; None: in this process."""
    inherited: Decision | None = None
    """That of the run whose rows these are, where it stopped early."""
    deciding: Deciding | None = field(init=False, default=None)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.keeping.name or self.dataset.name

    def run(
        self,
        *,
        resume: str | os.PathLike[str] | None = None,
        reuse: str | os.PathLike[str] | None = None,
        output_path: Path | None = None,
    ) -> Finished:
        """Check everything, run, and write the files.

        Raises:
            ConfigurationError: before anything is asked or written: something does not fit together.
            RunError: the run was stopped; its journal holds what it finished.
        """
        if resume is not None and reuse is not None:
            raise ConfigurationError("resume finishes a run in its own folder, reuse makes a new one: give one of them")
        if self.on is not None and self.question is not None:
            raise ConfigurationError(
                "--until-decided judges each row before it asks the next, and --on hands out rows in chunks: "
                "leave --on out; one process makes more calls at once with --concurrency N"
            )
        scan = self.dataset.scan()
        if self.on is not None and scan.rows is None:
            raise ConfigurationError(
                "--on reads the data more than once, and this data can be read once: write it to a file"
            )
        self.check(scan)
        described = self._describe(scan)
        self.deciding = self._read_base()
        earlier, notes = None, [self.dataset.note] if self.dataset.note else list[str]()
        if self.gaps_are_errors:
            notes += tools_remark(self.evaluators, self.target, self.layers, scan.columns)
        if resume is not None:
            folder = find_run(resume, self.keeping.folder)
            reuses_answers = self.target is None or self.target.answers_can_be_reused
            before = folder.manifest()
            manifest = resumed(
                folder.id,
                before,
                described,
                reuses_answers=reuses_answers,
                evaluators_may_change=self.target is not None and self.target.evaluators_may_change,
            )
            if self.question is None:  # it is finished now, and stays so when it is resumed once more
                command = {name: value for name, value in manifest.command.items() if name != "until_decided"}
                manifest = replace(manifest, command=command)
            manifest = signed(manifest) if began_here(before) else replace(manifest, command=described.command)
        else:
            source = None
            if reuse is not None:  # what cannot be read is said before a folder is made
                parent = find_run(reuse, self.keeping.folder)
                earlier = self._recorded(parent, parent.manifest(), described, notes, by_row=False)
                at_home = parent.folder.resolve().parent == self.keeping.folder.resolve()
                source = parent.id if at_home else str(parent.folder.resolve())
            folder, created_ns = create_run(self.keeping.folder, self.name)
            begun = replace(described, id=folder.id, created=now(), created_ns=created_ns, parent=source)
            manifest = signed(begun)
        finished = self._run_in(folder, manifest, scan, earlier, notes, resumed=resume is not None)
        if output_path is not None:
            try:
                write_azure_results(output_path, finished.rows, finished.metrics, None)
            except OSError as error:
                raise RunError(f"cannot write {output_path}: {error.strerror}; run {folder.id} is finished") from error
        return finished

    # -- before

    def check(self, scan: Scan) -> None:
        """Check columns, prices and grouping against what the data set holds."""
        check_columns(self.evaluators if self.gaps_are_errors else (), self.target, self.layers, scan.columns)
        self.facts.check_prices(self.pace.max_cost)
        declared = self.dataset.defaults
        grouping = [
            *(("group_by", column) for column in self.keeping.grouping),
            ("group_key", declared.group_key),
            ("cluster", None if self.keeping.cluster == "none" else self.keeping.cluster or declared.cluster),
        ]
        for option, column in grouping:
            if column is not None and column not in scan.columns:
                raise ConfigurationError(f"{option}: there is no column {column!r}{did_you_mean(column, scan.columns)}")

    def _read_base(self) -> Deciding | None:
        """The base to decide against, paired with the rows that are about to be asked."""
        if self.question is None:
            return None
        from tunecheck.comparison._deciding import Deciding
        from tunecheck.results import AboutToRun

        mapping = describe_mapping(self.layers).values() if self.target is None else None
        rows = AboutToRun(self.dataset, mapping, self.keeping.cluster)
        return Deciding(self.question, rows, [each.name for each in self.evaluators], self.keeping.folder)

    @property
    def facts(self) -> EndpointFacts:
        """The endpoints that the run asks, and what it has learned about their APIs."""
        return EndpointFacts.of(self.target, self.evaluators)

    def _describe(self, scan: Scan) -> RunFile:
        path, declared = self.dataset.path, self.dataset.defaults
        return RunFile(
            name=self.name,
            status="running",
            dataset=DatasetEntry(
                self.dataset.name,
                str(path) if path else None,
                scan.sha256,
                scan.rows,
                self.keeping.cluster or declared.cluster or declared.group_key,
                declared.primary,
            ),
            target=describe_target(self.target),
            evaluators=describe_evaluators(self.evaluators),
            mapping=describe_mapping(self.layers),
            group_by=self.keeping.grouping,
            simulated=self._simulated,
            tags=dict(self.keeping.tags or {}),
            command=kept_settings(self.keeping.command or {}),
            versions=versions(),
        )

    @property
    def _simulated(self) -> bool:
        return self.target is not None and self.target.simulated

    # -- the run

    def _run_in(
        self, run: Run, manifest: RunFile, scan: Scan, earlier: Recorded | None, notes: list[str], *, resumed: bool
    ) -> Finished:
        known = manifest.records or 0
        self.facts.recall_from(manifest)
        path = run.journal.absolute()  # evaluators may go to another folder
        with contextlib.ExitStack() as opened:
            # The journal's lock is held until the last file is written.
            journal = opened.enter_context(contextlib.closing(Journal(path, at_least=known)))
            # First: a damaged journal is refused before anything is written.
            cached = self._cached(run, manifest, journal, notes) if resumed else CachedResults(parent=earlier)
            opened.callback(cached.close)
            opened.enter_context(self._ending(run, manifest, journal))
            run.write(replace(manifest, status="running", started=now()))
            if self.on is not None:
                since = path.stat().st_size
                notes += self._run_elsewhere(self.on, run, scan, journal, cached)
                cached = self._cached(run, manifest, journal, [], since)  # with what the tasks have recorded
                opened.callback(cached.close)
            return self._run_here(run, manifest, scan, journal, cached, opened, notes)

    @contextlib.contextmanager
    def _ending(self, run: Run, manifest: RunFile, journal: Journal) -> Iterator[None]:
        """Around a part of the run: whatever ends it early, Ctrl-C too, the manifest says so."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - it is raised again, or what is told of it
            stopped = stopped_by(run, self.facts.added_to(replace(manifest, records=journal.sync())), error)
            if stopped is error:
                raise
            raise stopped from error

    def _run_elsewhere(
        self, on: RunsElsewhere, run: Run, scan: Scan, journal: Journal, cached: CachedResults
    ) -> list[str]:
        """Have tasks answer and judge the rows that are not finished; return notes for the reader of the results.

        Raises:
            RunError: the run was stopped; the journal holds what the tasks finished.
        """
        plan = self._plan(run, scan)
        rates = {name: endpoint.rates() for name, endpoint in self.facts.endpoints.items()}
        spent = 0.0 if self.pace.max_cost is None else spent_before(plan, journal, cached)
        shared = SharedSettings(rates, self.pace.max_cost, spent)
        runner = on.runner(TaskRecipe(run.id, on.recipe, self.facts.known()))
        engine = RemoteEngine(plan, journal, ChunkSource(plan, cached), runner, shared, self.facts.recall)
        run_engine(engine, {}, self._progress())
        return [*engine.tally.notes, *engine.tally.sentences(self.pace.evaluator_timeout)]

    def task_plan(self, run_id: str) -> Plan:
        """The plan of a task that works on chunks of a run; its rows are those of each chunk."""
        return self._plan_of(run_id, None, workers=self.pace.workers or 0)

    @property
    def _grouping(self) -> list[str]:
        return ["row_kind", *self.keeping.grouping]

    def _notes_before(self, notes: list[str]) -> list[str]:
        remarks = (note for each in self.evaluators for note in each.notes)
        return [*dict.fromkeys((*notes, *remarks)), *(self.target.notes if self.target is not None else ())]

    def _run_here(
        self,
        run: Run,
        manifest: RunFile,
        scan: Scan,
        journal: Journal,
        cached: CachedResults,
        opened: contextlib.ExitStack,
        notes: list[str],
    ) -> Finished:
        results = ResultsWriter(run.results.absolute())
        opened.callback(results.abandon)
        aggregator = opened.enter_context(contextlib.closing(Aggregator(self.evaluators, self._grouping)))
        calls = RunCalls(run.id, journal, cached, Budget(self.pace.max_cost))
        opened.callback(calls.close)
        engine = Engine(self._plan(run, scan), journal, results, aggregator, cached, calls)
        engine.tally.notes += self._notes_before(notes)
        run_engine(engine, self._closing, self._progress())
        tally = engine.tally
        tally.simulated |= calls.simulated
        tally.masked += calls.masked
        decision = self.inherited if self.deciding is None else self.deciding.finish(cached.answered(), journal)
        rows, columns = results.finish(), columns_of(results.shapes)
        return self._finish(run, manifest, journal, rows, columns, aggregator, calls, tally, decision)

    @property
    def _closing(self) -> dict[str, Closable]:
        models = {f"evaluator {each.name!r}": each.function for each in self.evaluators if each.asks_models}
        opened_by_name = {"the target": self.target, **models}
        return {name: cast("Closable", each) for name, each in opened_by_name.items() if hasattr(each, "close")}

    def _progress(self) -> ProgressCallback | None:
        """Who is told how far the run is: where nobody says, a notebook's reader is."""
        wanted = self.pace.progress
        if wanted is None or wanted is True:
            return NotebookProgress(self.name) if in_notebook() else ProgressBar(self.name) if wanted else None
        return wanted or None

    def _plan(self, run: Run, scan: Scan) -> Plan:
        workers = self.pace.processes(self.evaluators, scan.rows or 0)
        return self._plan_of(run.id, run.folder.absolute(), workers=workers, row_count=scan.rows)

    def _plan_of(self, run_id: str, folder: Path | None, *, workers: int, row_count: int | None = None) -> Plan:
        return Plan(
            run_id=run_id,
            rows=self.dataset.rows,
            target=self.target,
            evaluators=self.evaluators,
            pace=self.pace,
            concurrency=self.pace.concurrency or (self.target and self.target.concurrency) or DEFAULT_CONCURRENCY,
            workers=workers,
            row_kind=row_kind_reader(self.layers),
            group_column=self.dataset.defaults.group_key,
            row_count=row_count,
            folder=folder,
            order=None if self.deciding is None else self.deciding.begin(self.target),
        )

    def _cached(
        self, run: Run, manifest: RunFile, journal: Journal, notes: list[str], since: int = sys.maxsize
    ) -> CachedResults:
        """What a run that goes on may reuse: from its own journal, and from that of the run it was made from."""
        own = self._recorded(run, run.manifest(), manifest, notes, by_row=True, since=since)
        parent = self._parent(run, manifest, notes)
        if own.lost:
            journal.accept(own.lost)
        return CachedResults(own, parent)

    def _parent(self, run: Run, manifest: RunFile, notes: list[str]) -> Recorded | None:
        """What the run that this one was made from has recorded; where it cannot be read, the notes say so."""
        if not manifest.parent:
            return None
        elsewhere = Path(manifest.parent).name != manifest.parent and not began_here(manifest)
        source = None
        with contextlib.suppress(ConfigurationError):
            source = None if elsewhere else find_run(manifest.parent, run.folder.parent)
        if source is not None:
            return self._recorded(source, source.manifest(), manifest, notes, by_row=False)
        why = "is not read: somebody else's run names it, elsewhere" if elsewhere else "is no longer there"
        notes.append(f"run {manifest.parent}, from which this one reuses results, {why}")
        return None

    def _recorded(
        self, source: Run, before: RunFile, now: RunFile, notes: list[str], *, by_row: bool, since: int = sys.maxsize
    ) -> Recorded:
        """What a run has recorded that still holds.

        Raises:
            RunError: something of it is damaged, and nobody has accepted that.
        """
        holds = reusable(before, now)
        notes += holds.notes
        recorded = Recorded(
            source.journal,
            by_row=by_row,
            evaluators=holds.evaluators,
            answers=holds.answers,
            at_least=before.records or 0,
            since=since,
        )
        loss = recorded.told_loss(before.row_count or 0)
        if loss is not None:
            if not self.pace.accept_damage:
                recorded.close()
                raise damaged(source, loss)
            notes.append(f"run {source.id} is damaged: {loss}")
        return recorded

    # -- after

    def _finish(
        self,
        run: Run,
        manifest: RunFile,
        journal: Journal,
        rows: RowsView,
        columns: list[str],
        aggregator: Aggregator,
        calls: RunCalls,
        tally: Tally,
        decision: Decision | None,
    ) -> Finished:
        simulated = self._simulated or tally.simulated
        tally.notes += [*tally.sentences(self.pace.evaluator_timeout), *dict.fromkeys(self.facts.sentences())]
        if decision is not None:
            from tunecheck.comparison._wording import sentences_of

            tally.notes += sentences_of(decision, str(manifest.parent) if self.deciding is None else run.id)
        metrics, by_group = aggregator.metrics(rows)
        if isinstance(self.dataset, RepeatedDataset):
            metrics |= trial_metrics(rows, self.evaluators, self.dataset.times, f"inputs.{SOURCE_ID}")
        errors = aggregator.errors
        tally.notes += [f"evaluator {n!r}: its __aggregate__ failed: {e.type}: {e.message}" for n, e in errors.items()]
        loaded = rows.loaded()
        write_table(run.table, columns, loaded)
        if len(columns) > MAX_COLUMNS:
            tally.notes.append(f"{run.table.name} has the first {MAX_COLUMNS:,} of {len(columns):,} columns")
        summary = MetricsFile(
            metrics=metrics,
            by={column: dict(values) for column, values in by_group.items()},
            rows=aggregator.rows,
            failed_rows=aggregator.failed_rows,
            usage=calls.usage(),
            simulated=simulated,
            notes=list(tally.notes),
            aggregate_errors=errors,
            decision=decision or UNSET,
        )
        write_file(run.metrics_file, dumps_readably(summary))
        files = (run.results, run.table, run.metrics_file)
        digests = {path.name: sha256_of(path) for path in files}
        sizes = {path.name: path.stat().st_size for path in files}
        ended = replace(manifest, status="finished", ended=now(), row_count=aggregator.rows, simulated=simulated)
        ended = replace(ended, records=journal.sync(), sha256=digests, sizes=sizes, decision=decision or UNSET)
        run.write(self.facts.added_to(ended))
        return Finished(
            run=run,
            rows=rows,
            loaded=loaded,
            metrics=metrics,
            by_group=by_group,
            usage=calls.usage(),
            row_count=aggregator.rows,
            failed_row_count=aggregator.failed_rows,
            simulated=simulated,
            notes=tally.notes,
            reused={"answers": tally.reused, "verdicts": tally.reused_verdicts},
            aggregate_errors=errors,
            unanswered_count=tally.unanswered,
            decision=decision,
        )
