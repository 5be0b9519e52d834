"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._comparison import Objection as Objection, Part as Part
from ._measuring import PairedValues as PairedValues
from ._pairing import pair as pair
from ._pairs import RunPair as RunPair
from ._parts import part_of as part_of, with_verdicts as with_verdicts
