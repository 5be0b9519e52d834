"""Statistics of runs and of their differences: pure functions over numbers; only resampling and sums load numpy.

estimate_proportion(outcomes)          # a pass rate
estimate_mean(values)                  # a mean
paired_binary(base, new)               # two runs' verdicts on the same rows
paired_scores(base, new)               # two runs' scores on the same rows
smallest_difference(comparison)        # what these rows could have shown
non_inferiority(difference, margin)    # is it shown to be no worse?
holm(p_values)                         # several metrics at once
decide_early(pairs)                    # better, worse, or no worse, from as few pairs as it takes
pass_at_k(trials, k), pass_hat_k(trials, k)

What is not defined (of no rows, of one conversation, of values that are not numbers) is None, and `remark` says why.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
