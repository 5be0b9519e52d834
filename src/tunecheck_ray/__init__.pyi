"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._driver import ChunkDriver as ChunkDriver, Flight as Flight
from ._tasks import RequestWindow as RequestWindow
