"""The models of `datasets author`: what they are asked is a run, journaled, within a budget, and taken up again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tunecheck import RunError
from tunecheck.plugins import JSON, Trust
from tunecheck.runs import list_runs
from tunecheck_authoring._author.dataset import write_rows
from tunecheck_authoring._author.files import Line
from tunecheck_authoring._author.writing import WritingRequest

if TYPE_CHECKING:
    from tunecheck import EvaluationResult

_RUNS = "runs"
_REASON = "_reason"


@dataclass
class EndpointModels:
    """Endpoints that write and solve; their runs are kept in a folder beside the stages' files."""

    writer: str
    solver: str
    work: Path
    max_cost: float | None
    trust: Trust
    _spent: float = field(default=0.0, init=False)

    def write(self, requests: Sequence[WritingRequest]) -> Mapping[str, str]:
        """Return what the writer says, by the request's id; requests that failed are left out."""
        rows: list[dict[str, JSON]] = [{"id": each.id, "messages": [*each.messages]} for each in requests]
        result = self._run("writer", self.writer, rows)
        texts = {str(row["row_id"]): row.get("outputs.text") for row in _rows(result)}
        return {row: text for row, text in texts.items() if isinstance(text, str)}

    def solve(self, rows: Sequence[Line]) -> Mapping[str, str]:
        """Return why rows were not solved, by id; rows that were solved are left out."""
        path = self.work / "to-solve.jsonl"
        write_rows(path, rows, "Rows that a model is to solve before they count.")
        result = self._run("solver", self.solver, str(path))
        return {str(row["row_id"]): reason for row in _rows(result) if (reason := _why_unsolved(row)) is not None}

    def _run(self, name: str, endpoint: str, data: str | list[dict[str, JSON]]) -> EvaluationResult:
        from tunecheck import UnansweredError, evaluate

        earlier = [run.folder for run in list_runs(self.work / _RUNS) if run.id.startswith(f"{name}-")]
        left = None if self.max_cost is None else max(0.0, self.max_cost - self._spent)
        try:
            result = evaluate(
                data=data,
                target=endpoint,
                evaluators={"length": _length} if isinstance(data, list) else None,
                evaluation_name=name,
                results_dir=self.work / _RUNS,
                reuse=earlier[-1] if earlier else None,
                max_cost=left,
                trust=self.trust,
            )
        except UnansweredError as error:
            first = next(row["error.target"] for row in _rows(error.result))
            message = first.get("message") if isinstance(first, dict) else first
            raise RunError(f"the {name} answered nothing; mend it, and run the same command again: {message}") from None
        costs = (each.get("cost") for each in result.usage.values() if isinstance(each, dict))
        self._spent += sum(cost for cost in costs if isinstance(cost, (int, float)))
        return result


def _rows(result: EvaluationResult) -> Iterable[Mapping[str, JSON]]:
    return cast("Iterable[Mapping[str, JSON]]", result["rows"])


def _length(response: object) -> dict[str, int]:
    """A run evaluates something: how much was written."""
    return {"characters": len(str(response))}


def _why_unsolved(row: Mapping[str, JSON]) -> str | None:
    """What the evaluators say against a row's answer; None where all of them pass it."""
    error = row.get("error.target")
    if isinstance(error, dict):
        return f"the solver failed: {error.get('message')}"
    results = [value for key, value in row.items() if key.startswith("outputs.") and key.endswith("_result")]
    if results and all(value in ("pass", "not_applicable") for value in results) and "pass" in results:
        return None
    reasons = [value for key, value in row.items() if key.startswith("outputs.") and key.endswith(_REASON)]
    return "; ".join(str(each) for each in reasons if each) or "the solver's calls were not judged"
