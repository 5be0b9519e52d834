"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._decision import stopped_text as stopped_text
from ._store import dumps_readably as dumps_readably, list_runs as list_runs
from ._values import value_reader as value_reader
