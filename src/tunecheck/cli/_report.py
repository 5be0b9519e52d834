"""`tunecheck report`, a run as one HTML file, and `tunecheck view`, all runs in a browser on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean
from tunecheck.cli._console import check_output, print_path
from tunecheck.cli._options import DEFAULT_RESULTS, Invocation, argument, command, option
from tunecheck.cli._shared_options import ComparingOptions, ResultsOptions


@dataclass(frozen=True, kw_only=True)
class ReportOptions(ComparingOptions, ResultsOptions):
    run: str = argument(
        "A run: its id, the beginning of it, its folder, or last; Azure's evaluation_results.json; BFCL's score files.",
        "RUN",
    )
    against: list[str] | None = option("A run to compare with, row by row (repeatable; the first is the base).", "RUN")
    out: str | None = option("The file; by default report.html in the run's folder.", "FILE")


@command(ReportOptions)
def report(options: ReportOptions, invocation: Invocation) -> int:
    """Write a run's report: one self-contained HTML file."""
    from tunecheck.cli._running import note_changed
    from tunecheck.report._writing import write_report
    from tunecheck.results import open_run

    check_output("--out", options.out)
    others = options.against or []
    folders = [open_run(name, options.folder).run for name in (options.run, *others)]
    if options.out is not None:
        path = Path(options.out)
    elif folders[0] is not None:
        path = folders[0].folder / "report.html"
    else:
        raise ConfigurationError(f"{options.run} is not a run folder, so the report needs a path: --out FILE")
    write_report(
        options.run, path, against=others, pair_by=options.pair_by, cluster=options.cluster, results_dir=options.folder
    )
    note_changed(*(folder for folder in folders if folder is not None))
    print_path(path)
    return 0


@dataclass(frozen=True, kw_only=True)
class ViewOptions(ResultsOptions):
    whole_storage: ClassVar[bool] = True

    port: int = option("Port to listen on; 0 takes any free one.", "PORT", default=8088, least=0, most=65_535)


@command(ViewOptions)
def view(options: ViewOptions, invocation: Invocation) -> int:
    """Show and compare all runs in a browser on this machine, until Ctrl-C."""
    from tunecheck.report._serving import view as serve

    def ready(url: str) -> None:
        place = clean(options.results_dir or DEFAULT_RESULTS)
        print(f"showing {place} on {url} (this machine only); Ctrl-C ends it", flush=True)

    serve(options.folder, port=options.port, on_ready=ready)
    return 0
