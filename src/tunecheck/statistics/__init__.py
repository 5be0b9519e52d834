"""Statistics of runs and of differences between runs: pure functions over numbers.

estimate_proportion(outcomes)          # a pass rate
estimate_mean(values)                  # a mean
paired_binary(base, new)               # two runs' verdicts on the same rows
paired_scores(base, new)               # two runs' scores on the same rows
smallest_difference(comparison)        # what these rows could have shown
non_inferiority(difference, margin)    # is it shown to be no worse?
holm(p_values)                         # several metrics at once
decide_early(pairs)                    # better, worse, or no worse, from as few pairs as possible
pass_at_k(trials, k), pass_hat_k(trials, k)

A figure that is not defined (no rows, a single conversation, values that are not numbers) is None; `remark` says why.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
