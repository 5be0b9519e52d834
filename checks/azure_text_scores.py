"""Scores text pairs with Azure's own evaluators; run by the python of an environment that holds them.

    python azure_text_scores.py PAIRS VERDICTS      JSON: a list of [response, ground_truth], a list of rows of verdicts

`NLTK_DATA` names the folder of nltk's data. ROUGE comes in every type there is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from azure.ai.evaluation import (
    BleuScoreEvaluator,
    F1ScoreEvaluator,
    GleuScoreEvaluator,
    MeteorScoreEvaluator,
    RougeScoreEvaluator,
    RougeType,
)


def main(pairs: Path, verdicts: Path) -> None:
    """Read pairs, write verdicts."""
    evaluators = {
        "bleu": BleuScoreEvaluator(),
        "gleu": GleuScoreEvaluator(threshold=0.25),
        "meteor": MeteorScoreEvaluator(),
        "meteor_flat": MeteorScoreEvaluator(alpha=0.5, beta=1.0, gamma=0.2, threshold=0.3),
        "f1_score": F1ScoreEvaluator(),
        **{kind.value: RougeScoreEvaluator(kind, precision_threshold=0.6, recall_threshold=0.3) for kind in RougeType},
    }
    rows = [
        {name: evaluator(response=response, ground_truth=truth) for name, evaluator in evaluators.items()}
        for response, truth in json.loads(pairs.read_text())
    ]
    verdicts.write_text(json.dumps(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
