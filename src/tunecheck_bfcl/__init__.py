"""BFCL: data, simulated services, and verdicts, either strict or exactly those of the leaderboard.

`CallCheckEvaluator` judges single-turn rows. `score_results` scores result files.
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
