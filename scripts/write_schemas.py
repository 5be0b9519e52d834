"""JSON Schemas of the files that Tunecheck writes and of those that people write for it, into docs/schemas/.

python scripts/write_schemas.py
"""

from __future__ import annotations

import sys
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import cast

import msgspec

from tunecheck._json import JSON, dumps
from tunecheck.cli._options import Command, CommandOptions
from tunecheck.cli._running import config_file
from tunecheck.endpoints import Endpoint
from tunecheck.plugins import discover

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"

WRITTEN_BY_US = {
    "run.json": "tunecheck._files:RunFile",
    "metrics.json": "tunecheck._files:Summary",
    "eval_results.jsonl": "tunecheck._files:ResultLine",
    "journal.jsonl": "tunecheck._files:Record",
    "export-source.json": "tunecheck_authoring._export:ExportFile",
    "author.json": "tunecheck_authoring._author.files:AuthorFile",
    "authoring-tasks.jsonl": "tunecheck_authoring._author.files:AuthoredTask",
    "authoring-variants.jsonl": "tunecheck_authoring._author.files:RowLine",
    "authoring-questions.jsonl": "tunecheck_authoring._author.files:QuestionLine",
    "authoring-rejected.jsonl": "tunecheck_authoring._author.files:Weakness",
    "authoring-world.yaml": "tunecheck_authoring._author.files:WorldFile",
    "authoring-graph.yaml": "tunecheck_authoring._author.files:GraphFile",
    "upload.json": "tunecheck_upload._uploader:UploadFile",
    "verdicts.jsonl": "tunecheck_bfcl._summary:VerdictLine",
    "bfcl-summary.json": "tunecheck_bfcl._summary:ModelSummary",
    "bfcl-summaries.json": "tunecheck_bfcl._summary:ModelsSummary",
    "memory-summary.json": "tunecheck_memory._run_files:MemorySummary",
    "memory-events.jsonl": "tunecheck_memory._events:AnyRecord",
    "comparison.json": "tunecheck.comparison._comparison:Comparison",
    "judge-calibration.json": "tunecheck._files:JudgeCalibration",
    "selection.json": "tunecheck.comparison._comparison:Selection",
    "calibration.json": "tunecheck.evaluation._calibration:Calibration",
}
"""The description of a whole file, or of each line of a `.jsonl`, by its name: it carries a version."""

WRITTEN_BY_PEOPLE = {
    "memory-configuration.yml": "tunecheck_memory._benchmark:ConfigurationFile",
    "prices.yaml": "tunecheck.endpoints._base:PriceFile",
    "sidecar.yaml": "tunecheck.datasets._sources:Sidecar",
    "evaluate-config.yaml": "tunecheck.cli._evaluate.command:evaluate",
}
"""Files that people write carry no version; a command's options stand for the configuration file that holds them."""


def schemas() -> dict[str, bytes]:
    """Each schema's text by its file's name."""
    named = {**WRITTEN_BY_US, **WRITTEN_BY_PEOPLE, **endpoint_kinds()}
    return {f"{name}.schema.json": _schema(name, place) for name, place in named.items()}


def endpoint_kinds() -> dict[str, str]:
    """The type of a definition of each kind of endpoint that is shipped."""
    shipped = [kind for kind in discover("endpoints") if kind.plugin is not None and "tunecheck" in kind.origin]
    types = {kind.name: cast("type[Endpoint]", kind.load()).config_type for kind in shipped}
    return {f"endpoint-{name}.yaml": f"{type.__module__}:{type.__qualname__}" for name, type in types.items() if type}


def _schema(name: str, place: str) -> bytes:
    module, _, attribute = place.partition(":")
    kind = getattr(import_module(module), attribute)
    if isinstance(kind, Command):
        kind = kind.options
    is_options = isinstance(kind, type) and issubclass(kind, CommandOptions)
    described: dict[str, JSON] = msgspec.json.schema(config_file(kind) if is_options else kind, schema_hook=_path)
    _remove_version_differences(described)
    head: dict[str, JSON] = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name}
    return msgspec.json.format(dumps({**head, **described}), indent=2) + b"\n"


def _remove_version_differences(schema: JSON) -> None:
    """Remove what msgspec 0.22 and 0.23 write differently: indented descriptions, `propertyNames`, empty defaults."""
    if isinstance(schema, list):
        for part in schema:
            _remove_version_differences(part)
    if not isinstance(schema, dict):
        return
    schema.pop("propertyNames", None)
    if schema.get("default") == {}:
        del schema["default"]
    if isinstance(text := schema.get("description"), str):
        schema["description"] = cleandoc(text)
    for key, part in schema.items():
        if key in ("properties", "$defs") and isinstance(part, dict):
            part = [*part.values()]  # schemas by name, not a schema
        _remove_version_differences(part)


def _path(kind: type) -> dict[str, JSON]:
    """How a kind stands in a file that msgspec does not know."""
    if kind is not Path:
        raise NotImplementedError(kind)  # which is how a hook says so
    return {"type": "string"}


def main() -> int:
    """Write them all; what is there and no longer generated goes."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = schemas()
    for old in FOLDER.glob("*.schema.json"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (FOLDER / name).write_bytes(text)
    print(f"{len(written)} schemas in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
