"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._manifest import value_reader as value_reader
from ._store import (
    MIRROR_STATE as MIRROR_STATE,
    dumps_readably as dumps_readably,
    list_runs as list_runs,
    mirror_at as mirror_at,
    mirror_folder as mirror_folder,
    open_mirror as open_mirror,
    stopped_text as stopped_text,
)
