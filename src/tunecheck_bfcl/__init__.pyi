"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._call_check import CallCheckEvaluator as CallCheckEvaluator
from ._result_files import find_results as find_results
from ._scoring import score_results as score_results
