"""Row-by-row comparison of runs: which iteration is better on which metric, how certain that is, which rows changed.

compare(base, new)                     # -> Comparison
comparison.metrics["bleu"].verdict     # "better", "worse", "no difference shown", "too little data", "judges differ"

The steps: `results` opens runs and builds their tables, `_pairs` pairs rows, `_measuring` tests a metric and gives
it a verdict, `_changes` lists the changed rows, `_objections` decides.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
