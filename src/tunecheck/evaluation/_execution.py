"""One run from beginning to end: its folder, its manifest, the engine, and the files it leaves."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import UNSET
from msgspec.structs import replace

from tunecheck._disk import sha256_of, write_file
from tunecheck._errors import ConfigurationError, RunError
from tunecheck._files import DatasetEntry, Decision, MetricsFile, RunFile
from tunecheck._messages import counted, did_you_mean
from tunecheck._notebook import NotebookProgress, in_notebook
from tunecheck._progress import ProgressBar, ProgressCallback
from tunecheck._targets import Target
from tunecheck.datasets._reading import Dataset, Scan
from tunecheck.datasets._repeated import SOURCE_ID, RepeatedDataset
from tunecheck.evaluation._arguments import Keeping
from tunecheck.evaluation._columns import check_columns, tools_remark
from tunecheck.evaluation._ending import Finished, now, stopped_by
from tunecheck.evaluation._facts import EndpointFacts
from tunecheck.evaluation._leasing import Leasing
from tunecheck.evaluation._loop import Closable, run_engine
from tunecheck.evaluation._merging import Merge
from tunecheck.evaluation._worker import Worker
from tunecheck.evaluation._workers import Launcher, finished_by, workers_of
from tunecheck.pipeline._aggregate import Aggregator, trial_metrics
from tunecheck.pipeline._costs import Budget
from tunecheck.pipeline._engine import Engine
from tunecheck.pipeline._finished_rows import ResultRow, RowsView
from tunecheck.pipeline._journal import CachedResults, Journal, Recorded
from tunecheck.pipeline._leased_budget import LeasedBudget
from tunecheck.pipeline._mapping import MappingLayers, row_kind_reader
from tunecheck.pipeline._model_calls import RunCalls
from tunecheck.pipeline._outcome import Outcome
from tunecheck.pipeline._plan import Pace, Plan, Tally
from tunecheck.pipeline._results import MAX_COLUMNS, ResultsWriter, write_azure_results, write_table
from tunecheck.pipeline._scoring import BoundEvaluator
from tunecheck.runs._authorship import began_here, signed
from tunecheck.runs._claims import Claims
from tunecheck.runs._manifest import (
    check_versions,
    describe_evaluators,
    describe_mapping,
    describe_target,
    kept_settings,
    resumed,
    reusable,
    versions,
)
from tunecheck.runs._shared_calls import SharedCalls
from tunecheck.runs._shares import SharedLimits
from tunecheck.runs._store import Run, create_run, dumps_readably, find_run
from tunecheck.runs._verify import damaged

if TYPE_CHECKING:
    from tunecheck.comparison._deciding import Deciding, Question

DEFAULT_CONCURRENCY = 10


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
    on: Launcher | None = None
    """What starts the workers that share the run; None: this process does all of it."""
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
                "--until-decided looks at each row before the next is asked, and --on hands out rows by the chunk: "
                "leave --on out; one process makes more calls at once with --concurrency N"
            )
        scan = self.dataset.scan()
        if self.on is not None and scan.rows is None:
            raise ConfigurationError("data that can be read only once cannot be shared by workers: write it to a file")
        self._check(scan)
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
                evaluators_may_change=self.on is None  # what workers have finished was judged by those of before
                and self.target is not None
                and self.target.evaluators_may_change,
            )
            if self.question is None:  # it is finished now, and stays so when it is resumed once more
                command = {name: value for name, value in manifest.command.items() if name != "until_decided"}
                manifest = replace(manifest, command=command)
            # What was changed was typed. Of a run begun elsewhere workers, too, load what was typed or allowed here.
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

    def _check(self, scan: Scan) -> None:
        check_columns(self.evaluators if self.gaps_are_errors else (), self.target, self.layers, scan.columns)
        self._facts.check_prices(self.pace.max_cost)
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
        from tunecheck.comparison._reading import AboutToRun

        mapping = describe_mapping(self.layers).values() if self.target is None else None
        rows = AboutToRun(self.dataset, mapping, self.keeping.cluster)
        return Deciding(self.question, rows, [each.name for each in self.evaluators], self.keeping.folder)

    @property
    def _facts(self) -> EndpointFacts:
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
        self._facts.recall_from(manifest)
        claims = Claims.of(run)
        # What is left of a run that workers have finished, one process does: rows that failed.
        shared = claims.exist or (self.on is not None and not manifest.workers)
        path = run.journal.absolute()  # evaluators may go to another folder
        with contextlib.closing(Journal(path, at_least=known)) as journal, contextlib.ExitStack() as opened:
            # The journal's lock is held until the last file is written.
            if shared:
                if not claims.exist and journal.sync() > 1:
                    raise ConfigurationError(f"run {run.id} was begun by one process: go on without --on")
                if earlier is not None:
                    earlier.close()  # it was seen that it can be read; workers do so themselves
                with self._ending(run, manifest, journal):
                    finished = self._run_shared(run, manifest, scan, claims, journal, opened, notes)
                claims.clear()
                return finished
            cached = self._cached(run, manifest, journal, notes) if resumed else CachedResults(parent=earlier)
            opened.callback(cached.close)
            with self._ending(run, manifest, journal):
                return self._run_alone(run, manifest, scan, journal, cached, opened, notes)

    @contextlib.contextmanager
    def _ending(self, run: Run, manifest: RunFile, journal: Journal) -> Iterator[None]:
        """Around a part of the run: whatever ends it early, Ctrl-C too, the manifest says so."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - it is raised again, or what is told of it
            stopped = stopped_by(run, self._facts.added_to(replace(manifest, records=journal.sync())), error)
            if stopped is error:
                raise
            raise stopped from error

    def _run_shared(
        self,
        run: Run,
        manifest: RunFile,
        scan: Scan,
        claims: Claims,
        journal: Journal,
        opened: contextlib.ExitStack,
        notes: list[str],
    ) -> Finished:
        """Have workers do the run, and put together what they have finished."""
        if self.on is None:
            raise ConfigurationError(f"run {run.id} is shared by workers: go on with --on local:N")
        if claims.exist:
            check_versions(run.id, manifest.versions)
        run.write(replace(manifest, status="running", started=now()))
        limits = SharedLimits.of(run)
        with finished_by(self.on, self._plan(run, scan), claims, limits, self._progress()):
            for chunk in sorted(claims.done()):
                self._facts.recall(claims.done_with(chunk).api)
            if lost := limits.read()[0].lost:
                notes.append(
                    f"up to {lost:.4g} may have been spent on calls of workers that died, whose answers were lost"
                )
            aggregator = opened.enter_context(contextlib.closing(Aggregator(self.evaluators, self._grouping)))
            outcome = Outcome(aggregator, {}, {}, Tally(notes=self._notes_before(notes)))
            merge, manifest = Merge(claims, outcome), replace(manifest, workers=workers_of(claims))
            if twice := journal.hold(claims.records()):
                outcome.tally.notes.append(f"{counted(twice, 'call')} of judges made twice, by two workers")
            rows = merge.write_rows(run.results.absolute())
            return self._finish(run, manifest, journal, rows, merge.write_table, outcome, self.inherited)

    @property
    def _grouping(self) -> list[str]:
        return ["row_kind", *self.keeping.grouping]

    def _notes_before(self, notes: list[str]) -> list[str]:
        remarks = (note for each in self.evaluators for note in each.notes)
        return [*dict.fromkeys((*notes, *remarks)), *(self.target.notes if self.target is not None else ())]

    def work(self, run: Run, owner: str) -> None:
        """Work on a run that was begun elsewhere, until nothing of it is left to do.

        Raises:
            ConfigurationError: it is not the same here.
            RunError: the run must stop.
        """
        scan = self.dataset.scan()
        self._check(scan)
        before = run.manifest()
        manifest = resumed(run.id, before, self._describe(scan), reuses_answers=False)
        check_versions(run.id, before.versions)
        holds = reusable(before, manifest)
        self._facts.recall_from(manifest)
        claims, limits = Claims.of(run, owner), SharedLimits.of(run, owner)
        if claims.finished:
            return
        limited = limits.read()[0].most is not None
        notes = list[str]()
        parent = self._parent(run, manifest, notes)
        if manifest.parent and parent is None:  # its rows would be asked again
            raise ConfigurationError(notes[-1])
        with contextlib.ExitStack() as opened:
            if parent is not None:
                opened.callback(parent.close)
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="tunecheck-"))
            Worker(
                claims,
                self._plan(run, scan, workers=self.pace.workers or 0),  # it is one of several processes itself
                lambda path: Recorded(path, by_row=True, evaluators=holds.evaluators, answers=holds.answers),
                parent,
                Leasing(limits, self._facts.endpoints.values(), LeasedBudget() if limited else None),
                SharedCalls.of(run, owner),
                self._closing,
                self._facts.known,
                self._grouping,
                Path(folder),
            ).work()

    def _run_alone(
        self,
        run: Run,
        manifest: RunFile,
        scan: Scan,
        journal: Journal,
        cached: CachedResults,
        opened: contextlib.ExitStack,
        notes: list[str],
    ) -> Finished:
        run.write(replace(manifest, status="running", started=now()))
        results = ResultsWriter(run.results.absolute())
        opened.callback(results.abandon)
        aggregator = opened.enter_context(contextlib.closing(Aggregator(self.evaluators, self._grouping)))
        calls = RunCalls(run.id, journal, cached, Budget(self.pace.max_cost))
        opened.callback(calls.close)
        engine = Engine(self._plan(run, scan), journal, results, aggregator, cached, calls)
        engine.tally.notes += self._notes_before(notes)
        run_engine(engine, self._closing, self._progress())
        outcome = Outcome(aggregator, calls.spending, results.shapes, engine.tally)
        outcome.count_calls(calls)
        decision = self.inherited if self.deciding is None else self.deciding.finish(cached.answered(), journal)
        return self._finish(run, manifest, journal, results.finish(), write_table, outcome, decision)

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

    def _plan(self, run: Run, scan: Scan, workers: int | None = None) -> Plan:
        return Plan(
            run_id=run.id,
            rows=self.dataset.rows,
            target=self.target,
            evaluators=self.evaluators,
            pace=self.pace,
            concurrency=self.pace.concurrency or (self.target and self.target.concurrency) or DEFAULT_CONCURRENCY,
            workers=self.pace.processes(self.evaluators, scan.rows or 0) if workers is None else workers,
            row_kind=row_kind_reader(self.layers),
            group_column=self.dataset.defaults.group_key,
            row_count=scan.rows,
            folder=run.folder.absolute(),
            order=None if self.deciding is None else self.deciding.begin(self.target),
        )

    def _cached(self, run: Run, manifest: RunFile, journal: Journal, notes: list[str]) -> CachedResults:
        """What a run that goes on may reuse: from its own journal, and from that of the run it was made from."""
        own = self._recorded(run, run.manifest(), manifest, notes, by_row=True)
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

    def _recorded(self, source: Run, before: RunFile, now: RunFile, notes: list[str], *, by_row: bool) -> Recorded:
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
        write_rows_as_table: Callable[[Path, list[str], Sequence[ResultRow]], object],
        outcome: Outcome,
        decision: Decision | None,
    ) -> Finished:
        aggregator, tally, columns = outcome.aggregator, outcome.tally, outcome.columns
        simulated = self._simulated or tally.simulated
        tally.notes += [*tally.sentences(self.pace.evaluator_timeout), *dict.fromkeys(self._facts.sentences())]
        if decision is not None:
            from tunecheck.comparison._wording import sentences_of

            tally.notes += sentences_of(decision, str(manifest.parent) if self.deciding is None else run.id)
        metrics, by_group = aggregator.metrics(rows)
        if isinstance(self.dataset, RepeatedDataset):
            metrics |= trial_metrics(rows, self.evaluators, self.dataset.times, f"inputs.{SOURCE_ID}")
        errors = aggregator.errors
        tally.notes += [f"evaluator {n!r}: its __aggregate__ failed: {e.type}: {e.message}" for n, e in errors.items()]
        loaded = rows.loaded()
        write_rows_as_table(run.table, columns, loaded)
        if len(columns) > MAX_COLUMNS:
            tally.notes.append(f"{run.table.name} has the first {MAX_COLUMNS:,} of {len(columns):,} columns")
        summary = MetricsFile(
            metrics=metrics,
            by={column: dict(values) for column, values in by_group.items()},
            rows=aggregator.rows,
            failed_rows=aggregator.failed_rows,
            usage=outcome.usage(),
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
        run.write(self._facts.added_to(ended))
        return Finished(
            run=run,
            rows=rows,
            loaded=loaded,
            metrics=metrics,
            by_group=by_group,
            usage=outcome.usage(),
            row_count=aggregator.rows,
            failed_row_count=aggregator.failed_rows,
            simulated=simulated,
            notes=tally.notes,
            reused={"answers": tally.reused, "verdicts": tally.reused_verdicts},
            aggregate_errors=errors,
            unanswered_count=tally.unanswered,
            decision=decision,
        )
