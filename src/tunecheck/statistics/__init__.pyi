"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._agreement import (
    correlation as correlation,
    fit_threshold as fit_threshold,
    score_agreement as score_agreement,
    weighted_kappa as weighted_kappa,
)
from ._best import (
    expected_optimism as expected_optimism,
    multiple_comparisons_with_the_best as multiple_comparisons_with_the_best,
)
from ._corrected import (
    LabelCounts as LabelCounts,
    corrected_difference as corrected_difference,
    errors_alike as errors_alike,
    prediction_powered as prediction_powered,
    rogan_gladen as rogan_gladen,
)
from ._decisions import (
    chance_to_show as chance_to_show,
    holm as holm,
    margin_result as margin_result,
    margin_to_show as margin_to_show,
    non_inferiority as non_inferiority,
    rows_to_decide as rows_to_decide,
    rows_to_show as rows_to_show,
    smallest_binary as smallest_binary,
    smallest_difference as smallest_difference,
)
from ._distributions import (
    effective_rows as effective_rows,
    mcnemar as mcnemar,
    t_quantile as t_quantile,
    tango as tango,
)
from ._estimates import (
    Codes as Codes,
    Floats as Floats,
    Labels as Labels,
    RowGroups as RowGroups,
    as_clusters as as_clusters,
    as_codes as as_codes,
    as_floats as as_floats,
    estimate_mean as estimate_mean,
    estimate_proportion as estimate_proportion,
    pass_at_k as pass_at_k,
    pass_hat_k as pass_hat_k,
)
from ._paired import (
    flip_counts as flip_counts,
    flip_scores as flip_scores,
    make_paired_scores as make_paired_scores,
    paired_binary as paired_binary,
    paired_scores as paired_scores,
)
from ._results import (
    CONFIDENCE as CONFIDENCE,
    Estimate as Estimate,
    Paired as Paired,
    Result as Result,
    wilson as wilson,
)
from ._sequential import ANY_STOPPING as ANY_STOPPING, EarlyTest as EarlyTest, Outcome as Outcome
