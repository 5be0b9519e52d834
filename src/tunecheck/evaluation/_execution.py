"""One run from beginning to end: its folder, its manifest, the engine, and the files it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import UNSET, ValidationError, to_builtins
from msgspec.structs import replace

from tunecheck._describe import converted
from tunecheck._errors import ConfigurationError, RunError, RunInterruptedError, TunecheckError, told
from tunecheck._files import DatasetEntry, Decision, Failure, MetricsFile, RunFile
from tunecheck._json import JSON
from tunecheck._messages import counted, did_you_mean
from tunecheck._notebook import NotebookProgress, in_notebook
from tunecheck._progress import ProgressBar, ProgressCallback
from tunecheck._regular_files import sha256_of
from tunecheck._targets import Target
from tunecheck._whole_files import write_file
from tunecheck.datasets._reading import Dataset, Scan
from tunecheck.datasets._repeated import SOURCE_ID, RepeatedDataset
from tunecheck.endpoints._api_facts import ApiFacts
from tunecheck.endpoints._base import Endpoint
from tunecheck.endpoints._scouting import Scouting
from tunecheck.evaluation._arguments import Keeping
from tunecheck.evaluation._loop import Closable, run_engine
from tunecheck.pipeline._aggregate import Aggregator, trial_metrics
from tunecheck.pipeline._callables import CallableTarget
from tunecheck.pipeline._costs import Budget
from tunecheck.pipeline._engine import Engine
from tunecheck.pipeline._journal import CachedResults, Journal, Recorded
from tunecheck.pipeline._mapping import MappingLayers, check_binding, row_kind_reader
from tunecheck.pipeline._model_calls import RunCalls
from tunecheck.pipeline._own_aggregates import Metrics
from tunecheck.pipeline._plan import Pace, Plan, Tally
from tunecheck.pipeline._results import ResultRow, ResultsWriter, RowsView
from tunecheck.pipeline._scoring import BoundEvaluator
from tunecheck.runs._authorship import began_here, signed
from tunecheck.runs._export import MAX_COLUMNS, write_azure_results, write_table
from tunecheck.runs._manifest import (
    describe_evaluators,
    describe_mapping,
    describe_target,
    kept_settings,
    resumed,
    reusable,
    versions,
)
from tunecheck.runs._store import Run, create_run, dumps_readably, find_run, utc_now
from tunecheck.runs._verify import damaged

if TYPE_CHECKING:
    from tunecheck.comparison._deciding import Deciding, Question

DEFAULT_CONCURRENCY = 10
_WORTH_A_PROCESS = 500
"""Rows from which starting worker processes pays by itself."""


@dataclass(frozen=True)
class Finished:
    """What a run came to."""

    run: Run
    rows: RowsView
    loaded: Sequence[ResultRow]
    """The same, in memory where they are few."""
    metrics: Metrics
    by_group: dict[str, dict[str, Metrics]]
    usage: dict[str, JSON]
    row_count: int
    failed_row_count: int
    simulated: bool
    notes: list[str]
    reused: dict[str, int]
    aggregate_errors: dict[str, Failure]
    unanswered_count: int
    decision: Decision | None


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
        scan = self.dataset.scan()
        self._check(scan)
        described = self._describe(scan)
        self.deciding = self._read_base()
        earlier, notes = None, [self.dataset.note] if self.dataset.note else list[str]()
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
            manifest = signed(manifest) if began_here(before) else manifest  # what was changed was typed
        else:
            source = None
            if reuse is not None:  # what cannot be read is said before a folder is made
                parent = find_run(reuse, self.keeping.folder)
                earlier = self._recorded(parent, parent.manifest(), described, notes, by_row=False)
                at_home = parent.folder.resolve().parent == self.keeping.folder.resolve()
                source = parent.id if at_home else str(parent.folder.resolve())
            folder, created_ns = create_run(self.keeping.folder, self.name)
            begun = replace(described, id=folder.id, created=_time(), created_ns=created_ns, parent=source)
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
        target_columns = self.target.columns if self.target is not None else None
        for evaluator in self.evaluators if self.gaps_are_errors else ():
            check_binding(
                evaluator.signature,
                self.layers[evaluator.name],
                f"evaluator {evaluator.name!r}",
                columns=scan.columns,
                target_columns=target_columns,
                has_target=self.target is not None,
            )
        if isinstance(self.target, CallableTarget):
            check_binding(
                self.target.signature,
                self.layers["target"],
                "the target",
                columns=scan.columns,
                target_columns=None,
                has_target=False,
            )
        self._check_prices()
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

    def _check_prices(self) -> None:
        """A limit on cost holds only for calls whose price is known."""
        asked = self._endpoints
        priced = [endpoint for endpoint in asked.values() if endpoint.price is not None]
        if self.pace.max_cost is None or len(priced) == len(asked) > 0:
            return
        unknown = [f"{e.name!r}, which {n!r} asks" for n, e in asked.items() if e.price is None and n != "target"]
        if unknown or not priced:
            raise ConfigurationError(
                f"max_cost: unknown price of {unknown[0] if unknown else 'the calls'}: "
                "write `price:` in the endpoint's definition, or give --prices FILE"
            )

    @property
    def _endpoints(self) -> dict[str, Endpoint]:
        """The endpoints that are asked, by the evaluator's name or as `target`."""
        own = getattr(self.target, "endpoint", None)
        target = {"target": own} if isinstance(own, Endpoint) else {}
        return target | {each.name: each.endpoint for each in self.evaluators if each.endpoint is not None}

    def _with_facts(self, manifest: RunFile) -> RunFile:
        """The manifest with what was found out about the endpoints' APIs, so that a resumed run knows it."""
        known = {name: endpoint.facts for name, endpoint in self._endpoints.items() if endpoint.facts != ApiFacts()}
        found = replace(manifest, api={name: to_builtins(facts) for name, facts in known.items()})
        return signed(found) if began_here(manifest) else found

    def _recall_facts(self, manifest: RunFile) -> None:
        """What an earlier part of this run found out; what one endpoint finds out, others of the same API know."""
        known: dict[Hashable, Scouting] = {}
        found_out = manifest.api if began_here(manifest) else {}  # by it, others would change what is asked
        for name, endpoint in self._endpoints.items():
            endpoint.share_facts(known)
            with contextlib.suppress(ValidationError):  # written by another version: it is found out again
                endpoint.facts = converted(found_out[name], ApiFacts) if name in found_out else endpoint.facts

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

    def _worker_count(self, scan: Scan) -> int:
        if self.pace.workers is not None:
            return self.pace.workers
        if any(evaluator.cpu_bound for evaluator in self.evaluators) and (scan.rows or 0) >= _WORTH_A_PROCESS:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return 0

    # -- the run

    def _run_in(
        self, run: Run, manifest: RunFile, scan: Scan, earlier: Recorded | None, notes: list[str], *, resumed: bool
    ) -> Finished:
        known = manifest.records or 0
        self._recall_facts(manifest)
        path = run.journal.absolute()  # evaluators may go to another folder
        with contextlib.closing(Journal(path, at_least=known)) as journal, contextlib.ExitStack() as opened:
            # The journal's lock is held until the last file is written.
            cached = self._cached(run, manifest, journal, notes) if resumed else CachedResults(parent=earlier)
            opened.callback(cached.close)
            try:
                return self._run_locked(run, manifest, scan, journal, cached, opened, notes)
            except BaseException as error:  # noqa: BLE001 - the manifest says how the run ended, Ctrl-C too
                stopped = _stopped(run, self._with_facts(replace(manifest, records=journal.sync())), error)
                if stopped is error:
                    raise
                raise stopped from error

    def _run_locked(
        self,
        run: Run,
        manifest: RunFile,
        scan: Scan,
        journal: Journal,
        cached: CachedResults,
        opened: contextlib.ExitStack,
        notes: list[str],
    ) -> Finished:
        run.write(replace(manifest, status="running", started=_time()))
        results = ResultsWriter(run.results.absolute())
        opened.callback(results.abandon)
        aggregator = Aggregator(self.evaluators, ["row_kind", *self.keeping.grouping])
        opened.callback(aggregator.close)
        calls = RunCalls(run.id, journal, cached, Budget(self.pace.max_cost))
        opened.callback(calls.close)
        engine = Engine(self._plan(run, scan), journal, results, aggregator, cached, calls)
        remarks = (note for each in self.evaluators for note in each.notes)
        engine.tally.notes += [
            *dict.fromkeys((*notes, *remarks)),
            *(self.target.notes if self.target is not None else ()),
        ]
        models = {f"evaluator {each.name!r}": each.function for each in self.evaluators if each.asks_models}
        opened_by_name = {"the target": self.target, **models}
        closing = {name: cast("Closable", each) for name, each in opened_by_name.items() if hasattr(each, "close")}
        run_engine(engine, closing, self._progress())
        engine.tally.simulated |= calls.simulated
        if masked := engine.tally.masked + calls.masked:
            engine.tally.notes.append(
                f"{counted(masked, 'answer')} repeated a value from the environment, masked as ***; "
                "${env:NAME:plain} in the definition or prompt marks one that is no secret"
            )
        found_out = (
            f"endpoint {endpoint.name!r}: {sentence}"
            for endpoint in self._endpoints.values()
            for sentence in endpoint.facts.sentences()
        )
        engine.tally.notes += dict.fromkeys(found_out)
        decision = self.inherited if self.deciding is None else self.deciding.finish(cached.answered(), journal)
        if decision is not None:
            from tunecheck.comparison._wording import sentences_of

            engine.tally.notes += sentences_of(decision, str(manifest.parent) if self.deciding is None else run.id)
        return self._finish(run, manifest, journal, results, aggregator, engine.tally, calls.usage(), decision)

    def _progress(self) -> ProgressCallback | None:
        """Who is told how far the run is: where nobody says, a notebook's reader is."""
        wanted = self.pace.progress
        if wanted is None or wanted is True:
            return NotebookProgress(self.name) if in_notebook() else ProgressBar(self.name) if wanted else None
        return wanted or None

    def _plan(self, run: Run, scan: Scan) -> Plan:
        return Plan(
            run_id=run.id,
            rows=self.dataset.rows,
            target=self.target,
            evaluators=self.evaluators,
            pace=self.pace,
            concurrency=self.pace.concurrency or (self.target and self.target.concurrency) or DEFAULT_CONCURRENCY,
            workers=self._worker_count(scan),
            row_kind=row_kind_reader(self.layers),
            group_column=self.dataset.defaults.group_key,
            row_count=scan.rows,
            folder=run.folder.absolute(),
            order=None if self.deciding is None else self.deciding.begin(self.target),
        )

    def _cached(self, run: Run, manifest: RunFile, journal: Journal, notes: list[str]) -> CachedResults:
        """What a run that goes on may reuse: from its own journal, and from that of the run it was made from."""
        own = self._recorded(run, run.manifest(), manifest, notes, by_row=True)
        parent = None
        if manifest.parent:
            elsewhere = Path(manifest.parent).name != manifest.parent and not began_here(manifest)
            try:
                source = None if elsewhere else find_run(manifest.parent, run.folder.parent)
            except ConfigurationError:
                source = None
            if source is not None:
                parent = self._recorded(source, source.manifest(), manifest, notes, by_row=False)
            else:
                why = "is not read: somebody else's run names it, elsewhere" if elsewhere else "is no longer there"
                notes.append(f"run {manifest.parent}, from which this one reuses results, {why}")
        if own.lost:
            journal.accept(own.lost)
        return CachedResults(own, parent)

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
        results: ResultsWriter,
        aggregator: Aggregator,
        tally: Tally,
        usage: dict[str, JSON],
        decision: Decision | None,
    ) -> Finished:
        simulated = self._simulated or tally.simulated
        columns = results.columns
        rows = results.finish()
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
            usage=usage,
            simulated=simulated,
            notes=list(tally.notes),
            aggregate_errors=errors,
            decision=decision or UNSET,
        )
        write_file(run.metrics_file, dumps_readably(summary))
        files = (run.results, run.table, run.metrics_file)
        digests = {path.name: sha256_of(path) for path in files}
        sizes = {path.name: path.stat().st_size for path in files}
        ended = replace(manifest, status="finished", ended=_time(), row_count=aggregator.rows, simulated=simulated)
        ended = replace(ended, records=journal.sync(), sha256=digests, sizes=sizes, decision=decision or UNSET)
        run.write(self._with_facts(ended))
        return Finished(
            run=run,
            rows=rows,
            loaded=loaded,
            metrics=metrics,
            by_group=by_group,
            usage=usage,
            row_count=aggregator.rows,
            failed_row_count=aggregator.failed_rows,
            simulated=simulated,
            notes=tally.notes,
            reused={"answers": tally.reused, "verdicts": tally.reused_verdicts},
            aggregate_errors=errors,
            unanswered_count=tally.unanswered,
            decision=decision,
        )


def _stopped(run: Run, manifest: RunFile, error: BaseException) -> BaseException:
    """Note in the manifest how a run ended early; what to raise for it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    interrupted = isinstance(error, (RunInterruptedError, KeyboardInterrupt, asyncio.CancelledError))
    expected = isinstance(error, (TunecheckError, OSError))
    status = "interrupted" if interrupted else "stopped" if expected else "failed"
    reason = "interrupted" if interrupted else told(error) if expected else f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError):  # the disk may be full, which is why it stopped
        run.write(replace(manifest, status=status, reason=reason, ended=_time()))
    if interrupted:
        return RunInterruptedError(run.folder)
    if isinstance(error, ConfigurationError) or not isinstance(error, Exception):
        return error
    if not run.journal.exists():
        gone = f"its folder {run.folder} was removed or moved while it went on"
        return RunError(f"run {run.id} stopped: {gone}; start it again, or if it was moved, --resume its new folder")
    return RunError(f"run {run.id} stopped: {reason}; go on with --resume {run.id}")


def _time() -> str:
    return utc_now().isoformat()
