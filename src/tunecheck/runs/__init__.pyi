"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._mirrors import (
    MIRROR_STATE as MIRROR_STATE,
    mirror_at as mirror_at,
    mirror_folder as mirror_folder,
    open_mirror as open_mirror,
)
from ._store import dumps_readably as dumps_readably, list_runs as list_runs, stopped_text as stopped_text
from ._values import value_reader as value_reader
