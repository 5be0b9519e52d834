"""Run by a python that has azure-ai-projects: its models check our bodies, its client makes the same and reads ours."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any


class Credential:
    def get_token(self, *scopes: str, **options: Any) -> Any:
        return SimpleNamespace(token=f"token for {scopes[0]}", expires_on=4_000_000_000)


def main(given: dict[str, Any]) -> None:
    from azure.ai.projects import AIProjectClient
    from openai.types.eval_create_params import EvalCreateParams
    from openai.types.eval_create_response import EvalCreateResponse
    from openai.types.evals.run_create_params import RunCreateParams
    from openai.types.evals.run_retrieve_response import RunRetrieveResponse
    from openai.types.evals.runs.output_item_list_response import OutputItemListResponse
    from pydantic import TypeAdapter

    evaluation = TypeAdapter(EvalCreateParams).validate_python(given["evaluation"])
    criteria = list(evaluation["testing_criteria"])
    source: Any = TypeAdapter(RunCreateParams).validate_python(given["run"])["data_source"]
    contents = list(source["source"]["content"])

    project = AIProjectClient(endpoint=given["project"], credential=Credential())
    project.datasets.upload_file(name="theirs", version="1", file_path=given["file"])
    client = project.get_openai_client()
    made = client.evals.create(**given["evaluation"])
    client.evals.runs.create(made.id, **given["run"])

    read: list[Any] = []
    for each in client.evals.list(limit=100):
        EvalCreateResponse.model_validate(each.model_dump(by_alias=True))
        for run in client.evals.runs.list(each.id, limit=100):
            RunRetrieveResponse.model_validate(run.model_dump(by_alias=True))
            items = list(client.evals.runs.output_items.list(run.id, eval_id=each.id, limit=100))
            for item in items:
                OutputItemListResponse.model_validate(item.model_dump(by_alias=True))
            items.sort(key=lambda item: item.datasource_item_id)
            results = [[(result.name, result.score, result.passed) for result in item.results] for item in items]
            read.append({"id": run.id, "name": run.name, "results": results})
    print(json.dumps({"criteria": len(criteria), "contents": len(contents), "read": read}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
