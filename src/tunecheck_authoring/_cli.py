"""The commands `datasets audit`, `datasets author` and `datasets export`, and the row checks of `tunecheck check`.

Each command checks its options first, calls a function of the package with the same name, and prints the result, as
JSON with `--json`. Most imports are inside functions, so that a help text loads few modules.

| command | exit code |
|---|---|
| `audit` | 3 if there are sure or likely findings, else 0; 0 after `--review` |
| `author`, `export` | 0 |
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins
from msgspec.structs import asdict

import tunecheck_authoring as authoring  # its names load on first use
from tunecheck import ConfigurationError, cli
from tunecheck.cli import argument, command, flag, option
from tunecheck.plugins import JSON, Trust, cause_named, causes, clean, command_line, one_of, plural

if TYPE_CHECKING:
    from tunecheck.datasets import Dataset
    from tunecheck.simulators import Backends
    from tunecheck_authoring._audit.checks import Value
    from tunecheck_authoring._author.files import Variant
    from tunecheck_authoring._author.writing import EndpointModels


def check_rows(dataset: Dataset, options: cli.DataCheckOptions) -> cli.CheckResult:
    """Return the result of all checks of a data set's rows: problems, remarks and unusable rows, as lines and as JSON.

    Ground-truth calls of conversations are executed on their simulators.
    """
    row_findings = [row.findings for row in checked_rows(dataset, options)]
    listed = [finding for findings_of_row in row_findings for finding in findings_of_row]

    unusable, lines = cli.find_unusable_rows(dataset)
    problems = sum(not finding.is_remark for finding in listed) + sum(map(len, unusable.values()))

    findings: list[JSON] = [asdict(finding) for finding in listed]
    findings += [
        {"entry": name, "problem": "unusable", "text": problem, "place": place}
        for problem, places in unusable.items()
        for name, place in places.items()
    ]

    unusable_ids = {name for places in unusable.values() for name in places}
    # A note tells what all rows lack. Then `no problems` alone would be wrong.
    has_notes = any(line.startswith("note: ") for line in lines)

    lines += _finding_lines(listed, unusable_ids, len(row_findings), problems, remarks=options.remarks)
    if has_notes and not problems:
        lines[-1] = lines[-1].replace("no problems", "no problems except those noted above")
    return cli.CheckResult(not problems, lines, {"rows": len(row_findings), "problems": problems, "findings": findings})


def checked_rows(dataset: Dataset, options: cli.DataCheckOptions) -> Iterator[authoring.CheckedRow]:
    """Yield the data set's rows with the findings of all checks; conversations are replayed on their simulators."""
    from tunecheck.calls import TOOL_COLUMNS
    from tunecheck.episodes import Services

    services = Services(data=options.benchmark_data, trust=Trust.of_command(options.trust or ()).of(*dataset.files))
    check = authoring.RowCheck(row_reader(dataset, ("ground_truth",)), row_reader(dataset, TOOL_COLUMNS))
    return authoring.checked_rows((row.values for row in dataset.rows()), services, row_check=check)


def row_reader(dataset: Dataset, columns: Sequence[str]) -> Value:
    """Return a reader of the first of these columns that a row has, by the data set's own column mapping."""
    from tunecheck.pipeline import parse_mapping, value_reader

    mapping = parse_mapping(dataset.defaults.column_mapping, dataset.defaults.place_of)
    read = value_reader({"default": mapping}, *columns)
    return lambda row: read(row, {})


def _finding_lines(
    findings: Sequence[authoring.Finding], unusable: set[str], rows: int, problems: int, *, remarks: bool
) -> Iterator[str]:
    """Yield the findings by row, and a last line that counts the problems. Remarks are listed only if `remarks`.

    `unusable` are ids of rows that count as having a problem, too.
    """
    for entry, group in groupby(findings, key=lambda finding: finding.entry):
        shown = [finding for finding in group if remarks or not finding.is_remark]
        if shown:
            yield clean(entry)
        for finding in shown:
            where = "" if finding.turn is None else f"turn {finding.turn}: "
            yield f"  {clean(f'{where}{authoring.PROBLEMS[finding.problem]}: {finding.full_text}')}"

    entries = unusable | {finding.entry for finding in findings if not finding.is_remark}
    noted = sum(finding.is_remark for finding in findings)
    hint = "" if remarks else " (--remarks lists them)"

    found = f"{plural(problems, 'problem')} in {len(entries):,} of them" if problems else "no problems"
    yield f"checked {plural(rows, 'row')}: {found}" + (f", {plural(noted, 'remark')}{hint}" if noted else "")


# -- datasets audit

_CERTAINTY_TITLES = {"sure": "certainly wrong", "likely": "probably wrong", "look": "worth a look"}


class AuditOptions(cli.DataCheckOptions, cli.ResultsOptions):
    data: str = argument("Data set to audit: a file, or e.g. bfcl:multi_turn_base.", "FILE")
    remarks: bool = flag("Also list findings that are only worth a look; --json always lists them.", flags=("--all",))
    against: str | None = option("Training data: report audited rows that this file also contains.", "FILE")
    runs: list[str] | None = option("Run of these rows: report rows that all runs fail alike (repeatable).", "RUN")
    review: bool = flag("Accept, reject or correct the findings in a browser on this machine; Ctrl-C stops the server.")
    out: Path | None = option("With --review: output file; by default the data's name with .reviewed.jsonl.", "FILE")
    port: int = option("With --review: port; 0 takes any free port.", "PORT", default=0, least=0, most=65_535)


@command(AuditOptions)
def audit(options: AuditOptions, invocation: cli.Invocation) -> int:
    """Find probable mistakes in a data set, with evidence: what `check` finds, and what only looks wrong.

    Findings are listed in this order: sure, likely, worth a look. Turns count from 0. Exit code 3: there are sure
    or likely findings (with --review always 0).
    """
    from tunecheck import find_run
    from tunecheck.datasets import open_dataset
    from tunecheck_authoring._audit.audit import FEWEST_RUNS

    if options.runs and len(options.runs) < FEWEST_RUNS:
        raise ConfigurationError(f"--runs needs at least {FEWEST_RUNS} runs to compare; give --runs once for each run")

    dataset = open_dataset(options.data, limit=options.limit, number_ids=True)
    result = authoring.audit(
        checked_rows(dataset, options),
        _dialogue_reader(dataset),
        training=_training_dialogues(options.against) if options.against else (),
        runs=[find_run(run, options.folder) for run in options.runs or []],
    )

    listed = [each for each in result.findings if options.remarks or each.certainty != "look"]
    if options.review:
        _review(dataset, listed, options)
        return cli.DONE

    if options.json:
        cli.print_json({"rows": result.rows, "findings": [finding.as_json() for finding in result.findings]})
    else:
        _show_audit(result, listed)
    return cli.NOT_MET if result.flagged else cli.DONE


def _review(dataset: Dataset, findings: Sequence[authoring.AuditFinding], options: AuditOptions) -> None:
    """Serve the review of these findings in a browser until Ctrl-C.

    Raises:
        ConfigurationError: --limit is given, but the review writes all rows.
    """
    from tunecheck_authoring._audit.review import Review, serve_review

    if options.limit is not None:
        raise ConfigurationError("--review needs all rows of the data set; leave out --limit")

    # A data set that is no file, such as `bfcl:multi_turn_base`, gets a new file in datasets/.
    plain = Path(dataset.name.rpartition(":")[2]).with_suffix("").name
    path = Path(options.data)
    out = options.out or (path if path.exists() else Path("datasets") / plain).with_suffix(".reviewed.jsonl")

    review = Review(dataset, findings, out)
    print(f"{plural(len(findings), 'finding')} to review; the rows will be written to {clean(out, 500)}")
    serve_review(review, options.port, lambda url: print(f"open {url} (this machine only); Ctrl-C to stop", flush=True))


def _dialogue_reader(dataset: Dataset) -> authoring.DialogueReader:
    """Return a reader of rows as dialogues, by the data set's column mapping."""
    from tunecheck.calls import TOOL_COLUMNS
    from tunecheck_authoring._audit.dialogue import QUESTION_COLUMNS

    columns = (("ground_truth",), TOOL_COLUMNS, QUESTION_COLUMNS)
    ground_truth, tools, question = (row_reader(dataset, each) for each in columns)
    return authoring.DialogueReader(ground_truth, tools, question, dataset.defaults.cluster)


def _training_dialogues(path: str) -> Iterator[authoring.Dialogue]:
    """Yield the dialogues of a training set. A note on stderr counts the rows that cannot be compared.

    Raises:
        ConfigurationError: no row can be compared.
    """
    from tunecheck.datasets import open_dataset

    dataset = open_dataset(path, number_ids=True)
    reader = _dialogue_reader(dataset)

    count, reasons = 0, []
    for row in dataset.rows():
        dialogue = reader.read(authoring.CheckedRow(row.id, row.values, ()))
        count += 1
        if isinstance(dialogue, str):
            reasons.append(dialogue)
        else:
            yield dialogue

    if reasons:
        if len(reasons) == count:
            problem = f"no row can be compared ({reasons[0]})"
            raise ConfigurationError(f"--against {path}: {problem}; give a file from `tunecheck datasets convert`")
        summary = f"{len(reasons):,} of {plural(count, 'row')} cannot be compared (first reason: {reasons[0]})"
        print(f"note: {clean(path)}: {summary}", file=sys.stderr)


def _show_audit(result: authoring.Audit, listed: Sequence[authoring.AuditFinding]) -> None:
    """Print the `listed` findings by certainty, then counts, and the share of rows that an agent passes without a call.

    The other findings are only counted.
    """
    from tunecheck_authoring._audit.dialogue import KINDS

    for certainty, group in groupby(listed, key=lambda each: each.certainty):
        print(f"{_CERTAINTY_TITLES[certainty]}:")
        for finding in group:
            where = finding.id if finding.turn is None else f"{finding.id}, turn {finding.turn}"
            print(f"  {clean(f'{where}: {KINDS[finding.kind]}: {finding.evidence}', 600)}")
            if finding.fix:
                print(f"    fix: {clean(finding.fix)}")

    hidden = len(result.findings) - len(listed)
    more = f"; {plural(hidden, 'finding')} only worth a look (--all lists them)" if hidden else ""
    print(f"audited {plural(result.rows, 'row')}: {len(result.flagged):,} with certain or probable mistakes{more}")
    if result.unread:
        print(f"not checked, or only in part: {plural(len(result.unread), 'row')} (--all lists the reasons)")
    if result.rows:
        print(f"baseline: never calling a function passes {result.idle / result.rows:.1%} of the rows")


# -- datasets author

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
"""Names of data sets, which become names of files, such as `parcels-2`."""

_WORLD, _SET, _WORDS = "The services", "The data set", "Words by a model"


class AuthorOptions(cli.JsonOptions, cli.TrustOptions):
    name: str = argument("Name of the data set, which is written to datasets/NAME.jsonl.", "NAME")
    simulator: list[str] | None = option("Simulator, or its file in simulators/ (repeatable).", "NAME|FILE", _WORLD)
    openapi: Path | None = option("OpenAPI file (2.0, 3.x); an existing simulators/NAME.py is kept.", "FILE", _WORLD)
    only: list[str] | None = option("Path, tag or operationId to use, e.g. '/pets*' (repeatable).", "PATTERN", _WORLD)
    mcp: str | None = option("MCP server to record; {folder} in COMMAND is a new folder.", "COMMAND|URL", _WORLD)
    tasks: int = option("Number of conversations.", "N", _SET, default=50, least=1, most=100_000)
    turns: str = option("Turns per conversation, e.g. 3 or 2-4; 1 makes single-turn rows.", "A-B", _SET, default="2-4")
    seed: int = option("Seed of all random choices.", "N", _SET, default=0, least=0)
    variants: list[str] | None = option(
        "Kinds of variants, or none; each conversation gets a second row of one kind. Default: all of "
        "missing_parameter, missing_function, long_context, composite, distractors, irrelevant, change_of_mind.",
        "KINDS",
        _SET,
        names=True,
    )
    split: float = option("Share of rows for NAME-train.jsonl.", "SHARE", _SET, default=0.0, least=0, most=0.9)
    work: Path | None = option("Folder for the files of the stages; by default authoring/NAME.", "DIR", _SET)
    stage: str | None = option("Stop after this stage: world, graph, tasks or variants.", "STAGE", _SET)
    draw: Path | None = option("Write the function graph to this file, as a Mermaid diagram.", "FILE.mmd", _SET)
    overwrite: bool = flag("Replace an existing data set.", _SET)
    writer: str | None = option("Model that rewrites the requests: file, or name in endpoints/.", "FILE", _WORDS)
    solver: str | None = option("Model that must solve each row; by default the writer.", "FILE", _WORDS)
    personas: Path | None = option("User personas (YAML): `name: description, way of speaking`.", "FILE", _WORDS)
    max_cost: float | None = option("Stop before writer plus solver cost more than this.", "AMOUNT", _WORDS, least=0)

    @property
    def folder(self) -> Path:
        """Return the folder of the stages' files."""
        return self.work or Path("authoring") / self.name

    @property
    def out(self) -> Path:
        """Return the path of the data set."""
        return Path("datasets") / f"{self.name}.jsonl"

    def turn_range(self) -> tuple[int, int]:
        """Return the least and most turns of --turns, or raise ConfigurationError for another format."""
        found = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", self.turns)
        least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)  # 0 is refused below
        if not 1 <= least <= most:
            raise ConfigurationError(f"--turns {self.turns!r} must be a number from 1 to 99, or a range such as 2-4")

        if least == 1 and most > 1:
            raise ConfigurationError(f"--turns {self.turns}: give 1 (single-turn rows) or 2-{most} (conversations)")
        return least, most

    def kinds(self) -> list[Variant]:
        """Return the chosen kinds of variants: all without --variants, none for `none`.

        Raises:
            ConfigurationError: a kind is unknown.
        """
        from tunecheck_authoring._author.files import VARIANTS

        for name in self.variants or ():
            one_of(name, (*VARIANTS, "none"), "--variants")
        return [known for known in VARIANTS if self.variants is None or known in self.variants]


@command(AuthorOptions)
def author(options: AuthorOptions, invocation: cli.Invocation) -> int:
    """Make a validated data set of conversations with simulated services.

    Name at least one service with --simulator, --openapi or --mcp. Each stage leaves a file that you can read and
    edit: the functions, which result feeds which parameter, the calls and words of each conversation, its variants.
    Unchanged parts are not made again.
    """
    _check_author(options)
    models = _make_models(options)
    simulators = [*map(_simulator_name, options.simulator or ()), *_made_services(options)]
    command = _command_line(options, invocation)

    with _open_backends(options) as backends:
        report = authoring.author(options, simulators, backends, command=command, models=models)
    if options.json:
        cli.print_json(to_builtins(report, enc_hook=str))
    else:
        _show_author(report)
    return cli.DONE


def _made_services(options: AuthorOptions) -> list[str]:
    """Write the simulator of --openapi or --mcp, unless it exists, and return its name in a list.

    Without these options, the list is empty.

    Raises:
        ConfigurationError: both options are given.
    """
    # The name of a data set may have dashes, that of a Python module may not.
    name = options.name.replace("-", "_")
    path = Path("simulators") / f"{name}.py"

    if options.openapi is not None and options.mcp is not None:
        raise ConfigurationError(f"--openapi and --mcp both write {path}; give only one of them")
    if options.openapi is not None:
        is_new = authoring.write_simulator(options.openapi, path, only=options.only or (), seed=options.seed)
    elif options.mcp is not None:
        is_new = authoring.write_recorded(options.mcp, path)
    else:
        return []

    if not options.json:
        print(f"{path}: {'made' if is_new else 'exists, and is kept'}")
    return [name]


def _open_backends(options: AuthorOptions) -> AbstractContextManager[Backends]:
    """Return a context manager that gives the simulators' backends.

    With --mcp, the service's simulator asks the server for answers that are not recorded.
    """
    from tunecheck.simulators import Backends

    backends = Backends(trust=Trust.of_command(options.trust or ()))
    if options.mcp is None:
        return nullcontext(backends)
    from tunecheck_authoring._mcp.service import recording_backends

    return recording_backends(options.mcp, options.name.replace("-", "_"), backends)


def _command_line(options: AuthorOptions, invocation: cli.Invocation) -> str:
    """Return the command line for the data set's card, without the secrets in a server's command."""
    if options.mcp is None:
        return invocation.typed
    from tunecheck_authoring._mcp.client import shown_server

    # The words before they are quoted, because quoting changes a command that has quotes itself.
    return command_line(word.replace(options.mcp, shown_server(options.mcp)) for word in invocation.words)


def _check_author(options: AuthorOptions) -> None:
    """Raise ConfigurationError for a wrong name, stage, number of turns or variant, or if no simulator is given."""
    from tunecheck_authoring._author.pipeline import STAGES

    if not _NAME.fullmatch(options.name):
        raise ConfigurationError(f"NAME {options.name!r} cannot be a file name; use letters, digits, - and _")

    one_of(options.stage or "rows", STAGES, "--stage")
    if not options.simulator and options.openapi is None and options.mcp is None:
        raise ConfigurationError("no simulator is given; give --simulator NAME, --openapi FILE, or --mcp COMMAND")

    options.turn_range()
    options.kinds()


def _make_models(options: AuthorOptions) -> EndpointModels | None:
    """Return the writer and the solver, or None without --writer. The other options for models need --writer.

    Raises:
        ConfigurationError: such an option is given without --writer.
    """
    if options.writer is None:
        for name, value in (("solver", options.solver), ("personas", options.personas), ("max-cost", options.max_cost)):
            if value is not None:
                raise ConfigurationError(f"--{name} needs a writer model; name the model with --writer")
        return None
    from tunecheck_authoring._author.writing import EndpointModels

    trust = Trust.of_command(options.trust or ())
    return EndpointModels(options.writer, options.solver or options.writer, options.folder, options.max_cost, trust)


def _simulator_name(name_or_file: str) -> str:
    """Return the plugin name of a simulator that is given by its name or its file.

    Raises:
        ConfigurationError: the file is not in the folder simulators/.
    """
    path = Path(name_or_file)
    if path.suffix != ".py":
        return name_or_file
    if path.resolve().parent != Path("simulators").resolve():
        raise ConfigurationError(f"--simulator {path}: rows load simulators only from simulators/; copy the file there")
    return path.stem


def _show_author(report: authoring.AuthorReport) -> None:
    """Print what happened to each stage's file and, if the data set was written, its rows, rejections and files."""
    from tunecheck_authoring._author.pipeline import plain_turns

    for file, what in report.stages.items():
        print(f"{clean(report.work / file)}: {what}")

    if not report.written:
        return

    train = f", {plural(report.train, 'training row')}" if report.train else ""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.variants.items())
    print(f"{plural(report.rows, 'test row')}{train}: {kinds}")
    for line in plain_turns(report.plain):
        print(line)

    for reason, count in report.rejected.most_common():
        print(f"rejected {count:,}: {clean(reason)}")
    for path in report.written:
        print(f"written {clean(path)}")


# -- datasets export


class ExportOptions(cli.JsonOptions, cli.ResultsOptions, cli.TrustOptions):
    run: str = argument("Run with the failed rows: name, id, beginning of an id, folder, or last.", "RUN")
    to: str = option("Format: sft or dpo (TRL), openai (preferences with --against).", "FORM", default=MISSING)
    out: Path | None = option("File to write; by default datasets/ID-FORM.jsonl with the run's id.", "FILE")
    against: str | None = option(
        "Second run: pairs for rows that only one run got right. Preferred: its answer or the expected call.", "RUN"
    )
    cause: list[str] | None = option("Export only rows that failed for this cause (repeatable).", "CODE")
    evaluator: str | None = option("Export only rows that failed this evaluator; by default any evaluator.", "NAME")
    question: str | None = option("Question column (default: messages, query, question, prompt or input).", "COLUMN")
    leave_test_set: Path | None = option("New test set without the exported rows, for later runs.", "FILE")
    no_test_set: bool = flag("Confirm that the run's data is not a test set. Required without --leave-test-set.")
    overwrite: bool = flag("Replace existing files.")
    allow_simulated: bool = flag("Also export runs with simulated answers.")


@command(ExportOptions)
def export(options: ExportOptions, invocation: cli.Invocation) -> int:
    """Write the rows that a run failed, with their right answers, as training examples, grouped by cause.

    Rows whose cause is, or may be, serving are left out unless --cause names it. Test rows must not become training
    rows: --leave-test-set removes them from the test set, --no-test-set says that there is none. Beside more.jsonl,
    more.source.json has the source of each line.
    """
    from tunecheck import find_run
    from tunecheck_authoring._export import FORMS

    one_of(options.to, FORMS, "--to")
    # A code with a dot has a detail, such as `wrong_argument.unit`, and `causes` may not list all details.
    for code in options.cause or ():
        one_of(code, [*causes(), *([code] if "." in code else [])], "--cause")

    run = find_run(options.run, options.folder)
    _check_test_set(options, run.id)
    report = authoring.export(run, options, find_run(options.against, options.folder) if options.against else None)

    if options.json:
        cli.print_json(_export_as_json(report))
    else:
        _show_export(report, options)
    return cli.DONE


def _check_test_set(options: ExportOptions, run_id: str) -> None:
    """Refuse an export that does not say what happens to the test set, or says both.

    A model must not be tested with the rows on which it was trained.
    """
    if options.leave_test_set is not None and options.no_test_set:
        raise ConfigurationError("--leave-test-set and --no-test-set exclude each other; give only one of them")

    if options.leave_test_set is None and not options.no_test_set:
        advice = "--leave-test-set FILE to write the test set without them, or --no-test-set if none are test rows"
        raise ConfigurationError(f"the rows of run {run_id} may be test rows; give {advice}")


def _export_as_json(report: authoring.ExportReport) -> JSON:
    """Return a report as JSON, without `source`, `leaving` and `by`. A cause "" is called unknown."""
    values: dict[str, JSON] = to_builtins(report, enc_hook=str)
    kept = {name: value for name, value in values.items() if name not in ("source", "leaving", "by")}
    return {**kept, "written": {code or "unknown": count for code, count in report.written.items()}}


def _show_export(report: authoring.ExportReport, options: ExportOptions) -> None:
    """Print the number of examples by cause, the rows left out by reason, and the written files."""
    what = "that just one run got right" if options.against else "that failed"
    written = report.written.total()
    print(f"{plural(written, 'example')} from {plural(report.failed, 'row')} {what} ({report.rows:,} in all):")

    width = len(f"{max(report.written.values()):,}")
    for code, count in report.written.items():
        title = f"{code}: {cause_named(code).title}" if code else "cause unknown, such as a low text score"
        print(f"  {count:>{width},}  {clean(title)}")

    if report.equal:
        print(f"left out {plural(report.equal, 'duplicate example')}")
    for reason, count in report.left_out.most_common():
        print(f"left out {count:,}: {clean(reason)}")

    print(f"written {report.out}")
    print(f"        {report.source} (source row of each line)")
    if options.leave_test_set is not None:
        also = f"; {report.left_along:,} with the same {clean(str(report.by))} left it" if report.left_along else ""
        print(f"        {options.leave_test_set} ({plural(report.rest or 0, 'row')} stay in the test set{also})")
