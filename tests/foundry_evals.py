"""The evals API of a Foundry project, as far as uploads need it: keeps evaluations, and runs their Python graders."""

import uuid
from typing import Any, NamedTuple

from aiohttp import web

PROJECT = "/api/projects/project-1"
_EVALS = rf"{PROJECT}/openai/v1/evals"
_DATA = rf"{PROJECT}/datasets/[^/]+/versions/1"


class Step(NamedTuple):
    """A call that a service answers: its name here, method and path, and the version and keys that it must have."""

    name: str
    method: str
    path: str
    version: str | None = None
    keys: str = ""


STEPS = (
    Step("list evals", "GET", _EVALS),
    Step("create eval", "POST", _EVALS, keys="name data_source_config testing_criteria metadata"),
    Step("list runs of evals", "GET", rf"{_EVALS}/[^/]+/runs"),
    Step("create run of evals", "POST", rf"{_EVALS}/[^/]+/runs", keys="name data_source metadata"),
    Step("get run of evals", "GET", rf"{_EVALS}/[^/]+/runs/[^/]+"),
    Step("delete run of evals", "DELETE", rf"{_EVALS}/[^/]+/runs/[^/]+"),
    Step("reserve rows", "POST", rf"{_DATA}/startPendingUpload", "v1", "pendingUploadType"),
    Step("register rows", "PATCH", _DATA, "v1", "type dataUri"),
    Step("list items", "GET", rf"{_EVALS}/[^/]+/runs/[^/]+/output_items"),
)

_NO_SAMPLE = {
    "error": {"code": "", "message": ""},
    "finish_reason": "",
    "input": [],
    "max_completion_tokens": 0,
    "model": "",
    "output": [],
    "seed": 0,
    "temperature": 0,
    "top_p": 0,
    "usage": {"cached_tokens": 0, "completion_tokens": 0, "prompt_tokens": 0, "total_tokens": 0},
}


def _page(asked: Any, found: list[dict[str, Any]]) -> web.Response:
    """One thing a page, the newest first, so that a client has to turn pages."""
    found = found[::-1]
    after = asked.query.get("after")
    start = 1 + next((at for at, each in enumerate(found) if each["id"] == after), -1)
    data = found[start : start + 1] if asked.query.get("limit") else found
    last = data[-1]["id"] if data else None
    more = bool(asked.query.get("limit")) and start + 1 < len(found)
    return web.json_response({"object": "list", "data": data, "first_id": last, "last_id": last, "has_more": more})


def not_found() -> web.Response:
    return web.json_response({"error": {"code": "NotFound", "message": "no such run"}}, status=404)


class EvalsService:
    """Evaluations by id, each with its `runs`; a run waits for a second look before it is completed."""

    def __init__(self) -> None:
        self.evals: dict[str, dict[str, Any]] = {}
        self.evals_runs: dict[str, dict[str, Any]] = {}
        self.items: dict[str, list[dict[str, Any]]] = {}
        self.datasets: dict[str, str] = {}
        self.fate = "completed"

    def _list_evals(self, asked: Any) -> web.Response:
        return _page(asked, list(self.evals.values()))

    def _create_eval(self, asked: Any) -> web.Response:
        id_ = f"eval_{uuid.uuid4().hex}"
        schema = {"type": "object", "properties": {"item": asked.json()["data_source_config"]["item_schema"]}}
        told = {"data_source_config": {"type": "custom", "schema": schema}}
        told["metadata"] = asked.json()["metadata"] | {"azureml.owner": "somebody"}  # services add their own
        self.evals[id_] = {"object": "eval", "id": id_, "created_at": 1, **asked.json(), **told}
        return web.json_response(self.evals[id_], status=201)

    def _list_runs_of_evals(self, asked: Any) -> web.Response:
        id_ = asked.path.split("/")[-2]
        return _page(asked, [run for run in self.evals_runs.values() if run["eval_id"] == id_])

    def _create_run_of_evals(self, asked: Any) -> web.Response:
        eval_id = asked.path.split("/")[-2]
        run_id = f"evalrun_{uuid.uuid4().hex}"
        self.items[run_id] = [
            _output_item(self.evals[eval_id], run_id, number, given)
            for number, given in enumerate(self._content(asked.json()["data_source"]["source"]))
        ]
        outcomes = [result["passed"] for item in self.items[run_id] for result in item["results"]]
        self.evals_runs[run_id] = {
            **asked.json(),
            "object": "eval.run",
            "id": run_id,
            "eval_id": eval_id,
            "created_at": 1,
            "status": "queued",
            "model": "",
            "error": {"code": "", "message": "out of order"},
            "per_model_usage": [],
            "per_testing_criteria_results": [],
            "report_url": f"https://ai.azure.com/evals/{eval_id}/{run_id}",
            "result_counts": {
                "total": len(outcomes),
                "passed": sum(outcomes),
                "failed": len(outcomes) - sum(outcomes),
                "errored": 0,
            },
        }
        return web.json_response(self.evals_runs[run_id], status=201)

    def _content(self, source: dict[str, Any]) -> list[dict[str, Any]]:
        inline = source["type"] == "file_content"
        found: list[dict[str, Any]] = source["content"] if inline else self.read_rows(self.datasets[source["id"]])
        return found

    def read_rows(self, address: str) -> list[dict[str, Any]]:
        """The lines of a blob."""
        raise NotImplementedError

    def _register_rows(self, asked: Any) -> web.Response:
        id_ = f"azureai://accounts/a/projects/project-1/data/{asked.path.split('/')[-3]}/versions/1"
        self.datasets[id_] = asked.json()["dataUri"]
        return web.json_response({"id": id_, **asked.json()}, status=201)

    def _get_run_of_evals(self, asked: Any) -> web.Response:
        run = self.evals_runs.get(asked.path.rpartition("/")[2])
        if run is None:
            return not_found()
        shown = dict(run)
        run["status"] = self.fate
        return web.json_response(shown)

    def _delete_run_of_evals(self, asked: Any) -> web.Response:
        run = self.evals_runs.pop(asked.path.rpartition("/")[2], None)
        return not_found() if run is None else web.json_response({"deleted": True, "object": "eval.run.deleted"})

    def _list_items(self, asked: Any) -> web.Response:
        return _page(asked, self.items[asked.path.split("/")[-2]])


def _output_item(evaluation: dict[str, Any], run_id: str, number: int, given: dict[str, Any]) -> dict[str, Any]:
    """The service's result for an item: each grader's score, whether it passed; a grader that raises gives none."""
    results = []
    for criterion in evaluation["testing_criteria"]:
        space: dict[str, Any] = {}
        exec(criterion["source"], space)
        try:
            score = space["grade"](given["sample"], given["item"])
        except ValueError:
            continue
        assert isinstance(score, float)
        passed = score >= criterion.get("pass_threshold", 0)
        results.append({"type": "python", "name": criterion["name"], "score": score, "passed": passed})
    return {
        "object": "eval.run.output_item",
        "id": f"outputitem_{number}",
        "created_at": 1,
        "eval_id": evaluation["id"],
        "run_id": run_id,
        "datasource_item_id": number,
        "datasource_item": given["item"],
        "results": results,
        "sample": _NO_SAMPLE,
        "status": "pass" if all(result["passed"] for result in results) else "fail",
    }
