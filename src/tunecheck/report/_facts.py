"""What was run, in a few words: the data, who answered, when, and where results of others were read from."""

from collections.abc import Iterator

from tunecheck._json import JSON
from tunecheck.report._reading import ReportedRun
from tunecheck.results._run_lines import answered_by, data_of


def facts_of(run: ReportedRun) -> Iterator[JSON]:
    """Everything that is worth a word, as `[name, text]`."""
    manifest = run.manifest
    yield ["data" if run.folder else "read from", data_of(manifest)]
    if run.folder:
        yield ["answers", answered_by(manifest)]
    for name, value in (("begun", manifest.created), ("ended", manifest.ended), ("reused from", manifest.parent)):
        if value:
            yield [name, f"{value[:19].replace('T', ' ')} UTC" if value.endswith("+00:00") else value]
    status = run.folder.status() if run.folder and manifest.status else "finished"
    if status != "finished":
        yield ["state", f"not finished ({status}): the rows are those of before"]
    if manifest.tags:
        yield ["tags", ", ".join(f"{name}={value}" for name, value in manifest.tags.items())]
    if version := manifest.versions.get("tunecheck"):
        yield ["tunecheck", version]
