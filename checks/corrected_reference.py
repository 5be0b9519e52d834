"""Runs in an environment with ppi-python and scikit-learn: a question a line in, their figures a line out."""

import json
import sys
import warnings

import numpy
from ppi_py import ppi_mean_pointestimate  # type: ignore[import-not-found]
from scipy.stats import pearsonr  # type: ignore[import-untyped]
from sklearn.metrics import cohen_kappa_score  # type: ignore[import-not-found]

warnings.simplefilter("ignore")  # 0 / 0 where a figure is not defined


def powered(labels: list[list[int]], passed: int, rows: int) -> dict[str, float]:
    """Point of prediction-powered inference; `labels` counts label by verdict."""
    pairs = [(label, verdict) for label in (1, 0) for verdict in (1, 0) for _ in range(labels[1 - label][1 - verdict])]
    truth, seen = (numpy.array([pair[side] for pair in pairs], dtype=float) for side in (0, 1))
    others = numpy.array([1.0] * passed + [0.0] * (rows - passed))
    point = float(ppi_mean_pointestimate(truth, seen, others)[0])
    return {"value": point}


def scores(first: list[int], second: list[int]) -> dict[str, float | None]:
    """Quadratic weighted kappa over all scores between the lowest and the highest, and Pearson's correlation."""
    levels = list(range(min(first + second), max(first + second) + 1))
    kappa = float(cohen_kappa_score(first, second, labels=levels, weights="quadratic"))
    found: dict[str, float | None] = {"kappa": None if numpy.isnan(kappa) else kappa, "correlation": None}
    if len(set(first)) > 1 and len(set(second)) > 1 and len(first) > 3:
        told = pearsonr(first, second)
        interval = told.confidence_interval(0.95)
        found |= {"correlation": float(told.statistic), "low": float(interval.low), "high": float(interval.high)}
    return found


for line in sys.stdin:
    asked = json.loads(line)
    answer = powered(**asked["powered"]) if "powered" in asked else scores(**asked["scores"])
    print(json.dumps(answer), flush=True)
