"""Shared parts of the tests of the pipeline: runs in a temporary folder, and reading what they leave strictly."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tunecheck import CallContext, EvaluationResult, Row, Run, Target, evaluate
from tunecheck.evaluation import result_or_unanswered
from tunecheck.plugins import TargetOutput
from tunecheck.runs import list_runs

Values = dict[str, Any]


def run(folder: Path, data: Any, **arguments: Any) -> EvaluationResult:
    """evaluate() with its run folder below `folder`, in threads unless the test says otherwise.

    It is given back where the target failed on every row, too.
    """
    return result_or_unanswered(evaluate, **({"data": data, "results_dir": folder / "runs", "workers": 0} | arguments))


def script(folder: Path, source: str, *arguments: object, own_group: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, which has to end; with `own_group`, signals to its group spare the test."""
    command = [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False, start_new_session=own_group
    )


def rows_of(result: EvaluationResult) -> list[Values]:
    rows: list[Values] = list(result["rows"])  # type: ignore[call-overload]
    return rows


def metrics_of(result: EvaluationResult) -> Values:
    metrics = result["metrics"]
    assert isinstance(metrics, dict)
    return metrics


def column(result: EvaluationResult, name: str) -> list[Any]:
    """One column of the result rows; None where a row does not have it."""
    return [row.get(name) for row in rows_of(result)]


def only_run(folder: Path) -> Run:
    (found,) = list_runs(folder / "runs")
    return found


def strict_json(text: str | bytes) -> Any:
    """Read JSON as a strict parser does: no NaN, no Infinity, no key twice, no bytes that are not UTF-8."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is not JSON")

    def once(pairs: list[tuple[str, Any]]) -> Values:
        assert len({key for key, _ in pairs}) == len(pairs), f"a key twice: {pairs}"
        return dict(pairs)

    raw = text if isinstance(text, bytes) else text.encode()
    return json.loads(raw.decode("utf-8"), parse_constant=refuse, object_pairs_hook=once)


def strict_lines(path: Path) -> list[Any]:
    """The records of a JSON Lines file, each on a line of its own."""
    raw = path.read_bytes()
    assert not raw or raw.endswith(b"\n")
    return [strict_json(line) for line in raw.split(b"\n")[:-1]]


def journal_of(result: EvaluationResult | Run) -> list[Any]:
    folder = result.folder if isinstance(result, Run) else result.run_dir
    return strict_lines(folder / "journal.jsonl")


def records(result: EvaluationResult | Run, kind: str) -> list[Any]:
    return [record for record in journal_of(result) if record["k"] == kind]


def rewrite(path: Path, **changes: object) -> None:
    """Change these keys of a JSON file, and take out those that are None here."""
    content = json.loads(path.read_text("utf-8")) | changes
    for key, value in changes.items():
        if value is None:
            del content[key]
    path.write_text(json.dumps(content), "utf-8")


class Answering(Target):
    """Answers each row by a function, and remembers which rows it was asked for, in order."""

    def __init__(
        self,
        answer: Callable[[Row], TargetOutput] = lambda row: {"response": f"answer to {row.values.get('question')}"},
        *,
        version: str | None = "1",
        group: str | None = None,
        columns: frozenset[str] | None = None,
    ) -> None:
        self._answer = answer
        self._version = version
        self._group = group
        self.columns = columns
        self.asked: list[str] = []
        self.keys: list[str] = []
        self.closed = 0

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        self.asked.append(row.id)
        self.keys.append(context.idempotency_key())
        return self._answer(row)

    def group_key(self, row: Row) -> str | None:
        value = row.values.get(self._group) if self._group else None
        return None if value is None else str(value)

    def fingerprint(self) -> str | None:
        return self._version

    async def close(self) -> None:
        self.closed += 1


def fail(error: BaseException) -> NoReturn:
    raise error


def questions(count: int) -> list[Values]:
    return [{"id": f"q{number}", "question": f"What is {number}?"} for number in range(count)]


def length(response: str) -> Values:
    return {"length": len(response)}


def numbered(rows: Sequence[Mapping[str, object]], name: str = "n") -> Iterator[Values]:
    for number, row in enumerate(rows):
        yield {**row, name: number}
