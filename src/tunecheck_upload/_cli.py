"""`tunecheck upload`, and the options of `evaluate` that upload its run to Azure AI Foundry or an MLflow server."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from tunecheck import ConfigurationError, TunecheckError, cli, plugins
from tunecheck.plugins import clean, plural

if TYPE_CHECKING:
    from tunecheck import Run
    from tunecheck.plugins import UploaderLike
    from tunecheck_upload._uploader import Uploaded


_destination = functools.partial(cli.option, panel=cli.RUNNING, recorded=False, acts="sends")


class DestinationOptions(cli.CommandOptions):
    """Options that name the destinations of an upload."""

    project: str | None = _destination(
        "Foundry project: its endpoint (https://…/api/projects/…), SUBSCRIPTION/GROUP/PROJECT for a project in a hub, "
        "or a YAML file that names the project.",
        "PROJECT",
    )
    foundry: str | None = _destination(
        "evals: upload as a run of Foundry's evals API; default: as a separate result.", "API"
    )
    mlflow: str | None = _destination("Upload to the MLflow server at this address.", "URL")


class EvaluateUploadOptions(DestinationOptions, cli.AddedOptions):
    """Options of `evaluate` that upload its run."""

    upload: bool = cli.flag("Upload the finished run to --project.", cli.RUNNING, recorded=False, acts="sends")

    def before_run(self, *, simulated: bool, allow_simulated: bool) -> cli.AfterRun:
        """Check the destinations before the run, and return the function that uploads the finished run.

        Without a destination, that function uploads nothing. `simulated` is true if the run has simulated answers, and
        `allow_simulated` permits their upload.

        Raises:
            ConfigurationError: --upload has no destination, or the upload would be refused.
        """
        if self.upload and self.project is None:
            raise ConfigurationError("--upload needs a destination; give --project PROJECT of Azure AI Foundry")

        project = self.project if self.upload else None
        uploaders = open_uploaders(self, project, allow_simulated=allow_simulated)

        for uploader in uploaders:
            uploader.check(simulated=simulated)

        def upload(run: Run) -> cli.Addition:
            done, failure = upload_all(uploaders, run)
            lines = [line for each in done for line in upload_lines(each)]
            return cli.Addition({"uploads": [asdict(each) for each in done]}, lines, failure)

        return upload


def open_uploaders(options: DestinationOptions, project: str | None, *, allow_simulated: bool) -> list[UploaderLike]:
    """Return an uploader to the project, if one is given, and one to the MLflow server that the options name, if any.

    Raises:
        ConfigurationError: --foundry is given without a project, or a destination is wrong.
    """
    if options.foundry is not None and project is None:
        raise ConfigurationError("--foundry works only with --project PROJECT; with `evaluate`, also give --upload")

    uploaders: list[UploaderLike] = []
    if project is not None:
        make = plugins.find("uploaders", "foundry")
        uploaders.append(make(project, api=options.foundry, allow_simulated=allow_simulated))

    if options.mlflow is not None:
        uploaders.append(plugins.find("uploaders", "mlflow")(options.mlflow, allow_simulated=allow_simulated))
    return uploaders


def upload_all(
    uploaders: Iterable[UploaderLike], run: Run, *, again: bool = False
) -> tuple[list[Uploaded], TunecheckError | None]:
    """Upload a run to each destination, also after a failure. Return the finished uploads and the first failure.

    The failure is None if all uploads succeed. If `again`, a run that was deleted at its destination is created anew.
    """
    done: list[Uploaded] = []
    failure: TunecheckError | None = None

    for uploader in uploaders:
        try:
            done.append(uploader.upload(run, again=again))
        except TunecheckError as error:
            failure = failure or error
    return done, failure


def upload_lines(done: Uploaded) -> Iterator[str]:
    """Yield the lines that describe an upload: destination, run, metrics, files, and the address of its page."""
    yield clean(f"already uploaded, nothing has changed: {done.to}" if done.unchanged else f"uploaded to {done.to}")
    yield clean(f"  run {done.run_id}: {plural(done.metrics, 'metric')}, {', '.join(done.files)}", 2_000)
    if done.left_out:
        yield clean(f"  metrics left out, because they are not finite numbers: {', '.join(done.left_out)}", 2_000)
    if done.url:
        yield clean(done.url, 2_000)


class UploadOptions(DestinationOptions, cli.JsonOptions, cli.ResultsOptions):
    runs: list[str] = cli.argument("Finished runs: name, id, beginning of an id, folder, or last.", "RUN…")
    allow_simulated: bool = cli.flag("Upload simulated answers, tagged as simulated.")
    again: bool = cli.flag("Upload the run again if it was deleted at the destination.")


@cli.command(UploadOptions)
def upload(options: UploadOptions, invocation: cli.Invocation) -> int:
    """Upload finished runs: metrics, rows, logs of conversations and the report.

    If an upload fails, repeat the command: the upload continues where it stopped, and makes no second run. upload.json
    records the finished steps. A failed upload does not stop the others.

    Exit codes: 0 done; 1 a step failed (the run's results are unchanged); 2 wrong use.
    """
    from tunecheck import find_run
    from tunecheck.cli import note_changed

    if options.project is None and options.mlflow is None:
        raise ConfigurationError("no destination is given; give --project PROJECT of Azure AI Foundry, or --mlflow URL")

    runs = [find_run(name, options.folder) for name in options.runs]
    uploaders = open_uploaders(options, options.project, allow_simulated=options.allow_simulated)

    failures: list[TunecheckError] = []
    for run in runs:
        note_changed(run)

        done, failure = upload_all(uploaders, run, again=options.again)
        for each in done:
            if options.json:
                cli.print_json(asdict(each))
            else:
                print(*upload_lines(each), sep="\n")
        # A failed upload does not stop the others. The last failure sets the exit code.
        if failure is not None:
            failures.append(failure)

    for failure in failures[:-1]:
        print(f"error: {clean(failure, 2_000)}", file=sys.stderr)
    if failures:
        raise failures[-1]
    return 0
