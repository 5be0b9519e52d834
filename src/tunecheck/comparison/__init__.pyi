"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._changes import part_of as part_of, with_verdicts as with_verdicts
from ._compare import compare_runs as compare_runs
from ._comparison import Objection as Objection, Part as Part
from ._judged import corrections as corrections
from ._measuring import ComparisonSettings as ComparisonSettings, PairedValues as PairedValues
from ._pairs import RunPair as RunPair, pair as pair
from ._view import selection_view as selection_view
from ._wording import headline as headline
