"""500 rows by each of Azure's evaluators that needs no service, in its `evaluate()` and ours, as JSON.

python azure_five_hundred.py FOLDER
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORDS = "the a sky sea book opens closes at nine ten in town Rome and blue red not it rains today".split()
ROWS = 500
CONCURRENCY = (1, 10, 50)
TIMES = 3


def rows() -> list[dict[str, Any]]:
    rng = random.Random(0)

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(0, 24)))

    def documents(key: str, low: float, high: float) -> list[dict[str, Any]]:
        whole = isinstance(high, int)
        drawn = [rng.randint(0, 4) if whole else rng.uniform(low, high) for _ in range(6)]
        return [{"document_id": f"d{number}", key: value} for number, value in enumerate(drawn)]

    return [
        {
            "response": text(),
            "ground_truth": text() or "nothing",
            "retrieval_ground_truth": documents("query_relevance_label", 0, 4),
            "retrieved_documents": documents("relevance_score", 0.0, 1.0),
        }
        for _ in range(ROWS)
    ]


def main(folder: Path) -> None:
    from azure.ai import evaluation as theirs

    import tunecheck

    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    evaluators: dict[str, Any] = {
        "bleu": theirs.BleuScoreEvaluator(),
        "gleu": theirs.GleuScoreEvaluator(),
        "meteor": theirs.MeteorScoreEvaluator(),
        "rouge": theirs.RougeScoreEvaluator(rouge_type=theirs.RougeType.ROUGE_L),
        "f1": theirs.F1ScoreEvaluator(),
        "documents": theirs.DocumentRetrievalEvaluator(),
    }
    found: dict[str, Any] = {}
    for name, evaluator in evaluators.items():
        given = {"data": str(path), "evaluators": {name: evaluator}}
        if name != "documents":
            evaluator(response="so it is", ground_truth="so it was")  # what loads once counts for nobody
        found[name] = {"there": [], "here": []}
        for _ in range(TIMES):
            found[name]["there"].append(_run(theirs.evaluate, given))
            for concurrency in CONCURRENCY:
                ours = {**given, "concurrency": concurrency, "results_dir": folder / "runs"}
                found[name]["here"].append({"concurrency": concurrency, **_run(tunecheck.evaluate, ours)})
    print(json.dumps(found))


def _run(evaluate: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """What it returns, and the seconds that it took: of CPU, and by the clock."""
    begun, started = time.process_time(), time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        result = evaluate(**given)
    took = {"seconds": time.process_time() - begun, "wall": time.perf_counter() - started}
    columns = [{key: value for key, value in row.items() if key.startswith("outputs.")} for row in result["rows"]]
    return {**took, "rows": columns, "metrics": result["metrics"]}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
