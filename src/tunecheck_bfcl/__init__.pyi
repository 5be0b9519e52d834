"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._call_check import CallCheckEvaluator as CallCheckEvaluator
from ._data.download import get_bfcl as get_bfcl
from ._data.files import CATEGORIES as CATEGORIES, find_bfcl as find_bfcl
from ._evaluation import run_bfcl as run_bfcl
from ._scoring import find_results as find_results, score_results as score_results
