"""Run by a python that has azure-ai-evaluation: our judges in its `evaluate()` and in ours, as JSON.

python azure_judges.py FOLDER ADDRESS
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any


def main(folder: Path, address: str) -> None:
    from azure.ai.evaluation import AzureOpenAIModelConfiguration, OpenAIModelConfiguration, evaluate as azure_evaluate

    import tunecheck

    azure = AzureOpenAIModelConfiguration(azure_endpoint=address, azure_deployment="judge-1", api_key="k" * 20)
    openai = OpenAIModelConfiguration(model="judge-2", base_url=f"{address}/v1", api_key="k" * 20)
    before = json.dumps([azure, openai])

    def evaluators() -> dict[str, Any]:
        return {
            "difference": tunecheck.DifferenceEvaluator(azure),
            "relevance": tunecheck.RelevanceEvaluator(openai),
            "tone": tunecheck.PromptyEvaluator(folder / "tone.prompty", model=openai),
        }

    shared = {"response": "${data.given}", "ground_truth": "${data.expected}", "query": "${data.question}"}
    config = {"default": {"column_mapping": shared}}
    data = str(folder / "rows.jsonl")
    with contextlib.redirect_stdout(sys.stderr):
        in_azure = azure_evaluate(data=data, evaluators=evaluators(), evaluator_config=config)
        in_ours = tunecheck.evaluate(
            data=data, evaluators=evaluators(), evaluator_config=config, results_dir=folder / "runs"
        )
    found = {
        "azure": {"rows": in_azure["rows"], "metrics": in_azure["metrics"]},
        "ours": {"rows": in_ours["rows"], "metrics": in_ours["metrics"]},
        "unchanged": json.dumps([azure, openai]) == before,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
