"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._distributions import t_quantile as t_quantile
from ._paired import FLIPS as FLIPS, filled as filled, flip_scores as flip_scores
from ._proportions import CONFIDENCE as CONFIDENCE
from ._results import Estimate as Estimate, PairedScores as PairedScores, Result as Result
from ._samples import (
    Codes as Codes,
    Floats as Floats,
    Labels as Labels,
    RowGroups as RowGroups,
    as_clusters as as_clusters,
)
