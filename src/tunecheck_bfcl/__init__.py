"""BFCL: data, simulated services, and verdicts, strictly or exactly as the leaderboard judges.

`CallCheckEvaluator` judges single-turn rows, `score_results` scores result files.
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
