"""Run by a python that has azure-ai-evaluation: the same evaluators in its `evaluate()` and ours, as JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path


def main(folder: Path) -> None:
    from azure.ai.evaluation import (
        BleuScoreEvaluator as AzureBleu,
        F1ScoreEvaluator as AzureF1,
        MeteorScoreEvaluator as AzureMeteor,
        evaluate as azure_evaluate,
    )

    import tunecheck

    words = str(folder / "words.jsonl")
    calls = str(folder / "calls.jsonl")
    config = {"default": {"column_mapping": {"response": "${data.given}", "ground_truth": "${data.expected}"}}}
    theirs = {"f1": AzureF1(), "bleu": AzureBleu(), "meteor": AzureMeteor()}
    ours_on_words = {
        "bleu": tunecheck.BleuScoreEvaluator(),
        "gleu": tunecheck.GleuScoreEvaluator(),
        "meteor": tunecheck.MeteorScoreEvaluator(),
        "rouge": tunecheck.RougeScoreEvaluator(rouge_type=tunecheck.RougeType.ROUGE_L),
        "f1": tunecheck.F1ScoreEvaluator(),
    }
    ours_on_calls = {
        "function_call_match": tunecheck.FunctionCallMatchEvaluator(),
        "argument_match": tunecheck.ArgumentMatchEvaluator(),
        "match": tunecheck.MatchEvaluator(),
    }
    found = {}
    with contextlib.redirect_stdout(sys.stderr):
        for name, data, evaluators in (
            ("theirs", words, theirs),
            ("ours_on_words", words, ours_on_words),
            ("ours_on_calls", calls, ours_on_calls),
        ):
            in_azure = azure_evaluate(data=data, evaluators=evaluators, evaluator_config=config)
            in_ours = tunecheck.evaluate(
                data=data, evaluators=evaluators, evaluator_config=config, results_dir=folder / "runs", concurrency=50
            )
            found[name] = {
                "azure": {"rows": in_azure["rows"], "metrics": in_azure["metrics"]},
                "ours": {"rows": in_ours["rows"], "metrics": in_ours["metrics"]},
            }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
