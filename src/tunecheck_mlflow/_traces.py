"""A run's rows as traces of an MLflow run: inputs and outputs, with each verdict as an assessment."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tunecheck.pipeline import RecordedVerdict, VerdictReader, counted_metrics
from tunecheck.plugins import JSON, dumps
from tunecheck_upload import LOG_COLUMN

if TYPE_CHECKING:
    from tunecheck import Run
    from tunecheck.pipeline import ResultRow
    from tunecheck.plugins import EvaluatorEntry

MOST = 1_000
"""The most rows that become traces. Failed rows come first."""

_LONGEST_PREVIEW, _LONGEST_REASON = 1_000, 10_000
_AS_WRITTEN: Mapping[str, JSON] = {"pass": True, "fail": False}


class Traces:
    """The traces of one run. Ids are computed from `marker` and the row's id, so a repeated upload adds no traces."""

    def __init__(self, run: Run, marker: str, moment_ms: int) -> None:
        """Prepare the traces. `marker` identifies the upload, and `moment_ms` is the time of all traces."""
        self._run, self._marker, self._moment_ms = run, marker, moment_ms
        self._evaluators = run.manifest().evaluators
        primaries = {name: entry.primary for name, entry in self._evaluators.items()}
        self._readers = [VerdictReader(*each) for each in counted_metrics(run.rows(), primaries).items()]

    def rows(self) -> list[ResultRow]:
        """Return the rows that become traces, at most `MOST`: failed rows first, in their order."""
        failed: list[ResultRow] = []
        others: list[ResultRow] = []
        for row in self._run.rows():
            words = {reader.word(row) for reader in self._readers}
            kept = failed if words & {"fail", "error"} or "error.target" in row else others
            if len(kept) < MOST:
                kept.append(row)
        return [*failed, *others][:MOST]

    def spans(self, rows: Sequence[ResultRow]) -> JSON:
        """Return the body of an OTLP request with one span per row.

        It follows the OpenTelemetry protocol 1.7, "JSON Protobuf Encoding". The attributes are MLflow's, with JSON
        texts as values.
        """
        spans: list[JSON] = [self._span(row) for row in rows]
        return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "tunecheck"}, "spans": spans}]}]}

    def _span(self, row: ResultRow) -> JSON:
        """Return a row as an OTLP span, which starts when the metrics were written and lasts for the row's latency."""
        begun = self._moment_ms * 1_000_000
        attributes = {
            "mlflow.spanType": "CHAIN",
            "mlflow.spanInputs": _inputs(row),
            "mlflow.spanOutputs": self._outputs(row),
        }
        failed = row.get("error.target")
        status: dict[str, JSON] = {"code": 1}
        if isinstance(failed, dict):
            status = {"code": 2, "message": f"{failed.get('type')}: {failed.get('message')}"}
        return {
            "traceId": self._trace(row),
            "spanId": self._trace(row)[:16],
            "name": "row",
            "kind": 1,
            "startTimeUnixNano": str(begun),
            "endTimeUnixNano": str(begun + round(_latency_ms(row) * 1_000_000)),
            "attributes": [
                {"key": key, "value": {"stringValue": dumps(value).decode()}} for key, value in attributes.items()
            ],
            "status": status,
        }

    def info(self, row: ResultRow, experiment: str, run_id: str) -> JSON:
        """Return the description of a trace with its assessments: `TraceInfo` of MLflow's REST API, version 3."""
        trace: dict[str, JSON] = {
            "trace_id": f"tr-{self._trace(row)}",
            "client_request_id": str(row["row_id"])[:50],
            "trace_location": {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment}},
            "request_preview": dumps(_inputs(row)).decode()[:_LONGEST_PREVIEW],
            "response_preview": dumps(self._outputs(row)).decode()[:_LONGEST_PREVIEW],
            "request_time": _timestamp(self._moment_ms),
            "execution_duration": f"{_latency_ms(row) / 1_000:.3f}s",
            "state": "ERROR" if "error.target" in row else "OK",
            "trace_metadata": {"mlflow.sourceRun": run_id},
            "tags": {"mlflow.traceName": "row", "tunecheck.row_id": str(row["row_id"])[:5_000]},
            "assessments": [*self._assessments(row)],
        }
        return {"trace": {"trace_info": trace}}

    def _assessments(self, row: ResultRow) -> Iterator[JSON]:
        """Yield each evaluator's verdict on a row, unless it is not applicable or has no value."""
        for reader in self._readers:
            verdict = reader.read(row)
            if verdict.word == "not_applicable":
                continue
            feedback = _feedback(verdict, row.get(f"error.{reader.name}"))
            if feedback is None:
                continue
            moment = _timestamp(self._moment_ms)
            found: dict[str, JSON] = {
                "assessment_id": f"a-{self._id(row, reader.name)}",
                "assessment_name": reader.name[:250],
                "source": _source(self._evaluators[reader.name]),
                "create_time": moment,
                "last_update_time": moment,
                "feedback": feedback,
            }
            if isinstance(verdict.score, (int, float)):
                found["metadata"] = {"score": str(verdict.score)}
            yield {**found, "rationale": verdict.reason[:_LONGEST_REASON]} if verdict.reason else found

    def _outputs(self, row: ResultRow) -> dict[str, JSON]:
        """Return the target's outputs: the output columns without those of evaluators and the log."""
        own = tuple(f"outputs.{reader.name}." for reader in self._readers)
        return {
            name.removeprefix("outputs."): _within_64_bits(value)
            for name, value in row.items()
            if name.startswith("outputs.") and not name.startswith(own) and name != LOG_COLUMN
        }

    def _trace(self, row: ResultRow) -> str:
        return self._id(row, "")

    def _id(self, row: ResultRow, part: str) -> str:
        return hashlib.blake2b(dumps([self._marker, row["row_id"], part]), digest_size=16).hexdigest()


def _feedback(verdict: RecordedVerdict, error: JSON) -> dict[str, JSON] | None:
    """Return a verdict as MLflow's feedback: pass or fail as a boolean, otherwise the score or the error.

    None for a verdict without any of them.
    """
    if verdict.word == "error":
        told = error if isinstance(error, dict) else {}
        said: JSON = {"error_code": str(told.get("type") or "Error"), "error_message": str(told.get("message") or "")}
        return {"value": None, "error": said}
    value = _AS_WRITTEN.get(verdict.word, verdict.score)
    return None if value is None else {"value": value}


def _source(entry: EvaluatorEntry) -> JSON:
    """Return the source of an assessment: an LLM judge or code, with the evaluator's type."""
    return {
        "source_type": "CODE" if entry.judge is None else "LLM_JUDGE",
        "source_id": (entry.type or "evaluator")[:250],
    }


def _inputs(row: ResultRow) -> dict[str, JSON]:
    inputs = ((name, value) for name, value in row.items() if name.startswith("inputs."))
    return {name.removeprefix("inputs."): _within_64_bits(value) for name, value in inputs}


def _within_64_bits(value: JSON) -> JSON:
    """Return a value with integers beyond 64 bits as text: MLflow accepts them, and then cannot read the trace."""
    if isinstance(value, dict):
        return {key: _within_64_bits(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_within_64_bits(each) for each in value]
    return str(value) if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 else value


def _latency_ms(row: ResultRow) -> float:
    latency = row.get("outputs.latency_ms")
    return float(latency) if isinstance(latency, (int, float)) and 0 <= latency < 1e9 else 0.0


def _timestamp(moment_ms: int) -> str:
    moment = datetime.datetime.fromtimestamp(moment_ms / 1_000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
