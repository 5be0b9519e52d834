"""Shared parts of the tests of scripted judges: a workspace with a judge on a real server, in a process of its own."""

import json
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli_parts import Said, inside, write_lines
from tests.pipeline_parts import strict_json, strict_lines
from tests.scripted_server import scripted

KEY = "sk-judge-0123456789-abcdef"
KEY_VARIABLE = "JUDGE_KEY"


@contextmanager
def serving(folder: Path, rules: Sequence[Mapping[str, Any]], *options: str) -> Iterator[str]:
    """The address of a server that answers by these rules to callers with the key; a process of its own."""
    script = folder / "script.yaml"
    script.write_text(json.dumps({"name": "judge-model", "rules": list(rules)}), "utf-8")  # JSON is YAML
    with scripted(script, "--key-env", KEY_VARIABLE, *options, **{KEY_VARIABLE: KEY}) as url:
        yield url


def health(url: str) -> Any:
    """The counts of the server."""
    with urllib.request.urlopen(f"{url}/health", timeout=10) as reply:
        return json.load(reply)


class JudgedWorkspace:
    """A folder with `rows.jsonl` and `endpoints/judge.yaml`, and what runs of `tunecheck` in it leave."""

    def __init__(self, folder: Path, url: str, rows: Sequence[Mapping[str, object]], **definition: object) -> None:
        self.folder = folder
        write_lines(folder / "rows.jsonl", rows)
        judge = {"kind": "openai", "url": f"{url}/v1", "model": "judge-model", "retries": 2, **definition}
        auth = {"auth": {"type": "key", "value": f"${{env:{KEY_VARIABLE}}}"}}
        (folder / "endpoints").mkdir(exist_ok=True)
        (folder / "endpoints" / "judge.yaml").write_text(json.dumps({**auth, **judge}), "utf-8")

    def judged(self, *options: str, evaluators: str = "difference", key: str = KEY) -> Said:
        """Have the rows judged."""
        return self.run(
            "evaluate", "--dataset", "rows.jsonl", "--response-column", "response", "--evaluators", evaluators,
            "--judge", "judge", *options, key=key,
        )  # fmt: skip

    def resumed(self, *options: str, key: str = KEY) -> Said:
        """Take up the last run."""
        return self.run("evaluate", "--resume", "last", *options, key=key)

    def run(self, *arguments: str, key: str = KEY) -> Said:
        """A command; the key stands in nothing that it prints or writes."""
        said = inside(self.folder, *arguments, **{KEY_VARIABLE: key})
        assert key not in said.out + said.err
        for path in (self.folder / "eval_results").rglob("*"):
            assert path.is_dir() or key.encode() not in path.read_bytes(), f"the key stands in {path.name}"
        return said

    @property
    def last(self) -> Path:
        """The folder of the latest run."""
        return max((self.folder / "eval_results").glob("*/run.json"), key=lambda path: path.stat().st_mtime_ns).parent

    def rows(self) -> dict[str, dict[str, Any]]:
        """The result rows of the latest run, by id."""
        return {row["row_id"]: row for row in strict_lines(self.last / "eval_results.jsonl")}

    def written(self) -> Any:
        """`metrics.json` of the latest run."""
        return strict_json((self.last / "metrics.json").read_bytes())
