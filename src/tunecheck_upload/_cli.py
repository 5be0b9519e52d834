"""`tunecheck upload`: the upload of a finished run to Azure AI Foundry or an MLflow server."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tunecheck import ConfigurationError, TunecheckError
from tunecheck.cli import Invocation, JsonOptions, ResultsOptions, argument, command, flag, print_json
from tunecheck.plugins import clean
from tunecheck_upload._destinations import DestinationOptions, as_json, open_uploaders, shown, upload_all


@dataclass(frozen=True, kw_only=True)
class UploadOptions(DestinationOptions, JsonOptions, ResultsOptions):
    runs: list[str] = argument("Finished runs, each by its id, the beginning of it, its folder, or last.", "RUN…")
    allow_simulated: bool = flag("Upload a run that no model answered; it is tagged as simulated.")
    again: bool = flag("Upload the run anew where it was deleted at the destination.")


@command(UploadOptions)
def upload(options: UploadOptions, invocation: Invocation) -> int:
    """Upload finished runs: metrics, rows, logs of conversations and the report.

    An upload that failed is repeated with the same command: it goes on where it stopped, and makes no second run. The
    run's upload.json records the finished steps. One that fails keeps no other from being uploaded.

    Exit codes: 0 done; 1 a step failed, and the run's folder is as it was; 2 wrong use.
    """
    from tunecheck import find_run
    from tunecheck.cli import note_changed

    if options.project is None and options.mlflow is None:
        raise ConfigurationError("no destination: give --project PROJECT of Azure AI Foundry, or --mlflow URL")
    runs = [find_run(name, options.folder) for name in options.runs]
    uploaders = open_uploaders(options, options.project, allow_simulated=options.allow_simulated)
    failures: list[TunecheckError] = []
    for run in runs:
        note_changed(run)
        done, failure = upload_all(uploaders, run, again=options.again)
        for each in done:
            if options.json:
                print_json(as_json(each))
            else:
                print(*shown(each), sep="\n")
        failures += [] if failure is None else [failure]
    for failure in failures[:-1]:
        print(f"error: {clean(failure, 2_000)}", file=sys.stderr)
    if failures:
        raise failures[-1]
    return 0
