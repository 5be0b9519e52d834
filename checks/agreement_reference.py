"""Runs in an environment with statsmodels and scikit-learn: a table of counts a line in, their figures a line out."""

import json
import sys
import warnings

import numpy
from sklearn.metrics import cohen_kappa_score  # type: ignore[import-not-found]
from statsmodels.stats.inter_rater import cohens_kappa  # type: ignore[import-not-found]
from statsmodels.stats.proportion import proportion_confint  # type: ignore[import-not-found]

warnings.simplefilter("ignore")  # 0 / 0 where kappa is not defined

for line in sys.stdin:
    asked = json.loads(line)
    table = numpy.array(asked["table"])
    kappa = cohens_kappa(table)
    cells = [(i, j) for i in range(len(table)) for j in range(len(table)) for _ in range(table[i][j])]
    total, agreed = int(table.sum()), int(numpy.trace(table))
    low, high = proportion_confint(agreed, total, alpha=1 - asked["confidence"], method="wilson")
    found = {
        "kappa": kappa.kappa,
        "standard_error": kappa.std_kappa,
        "low": kappa.kappa_low,
        "high": kappa.kappa_upp,
        "sklearn": cohen_kappa_score([i for i, _ in cells], [j for _, j in cells]),
        "accuracy_low": low,
        "accuracy_high": high,
    }
    plain = {name: None if numpy.isnan(value) else float(value) for name, value in found.items()}
    print(json.dumps(plain), flush=True)
