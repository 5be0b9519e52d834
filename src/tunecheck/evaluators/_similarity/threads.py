"""One thread for NumPy's matrix products, while ours run: small ones gain nothing from more, and lose a lot.

Rows are worked on beside each other by worker processes. With more threads than cores between them, those of a matrix
product wait for each other most of the time: 10 to 30 times the CPU time was measured.
"""

from __future__ import annotations

import threading
from types import TracebackType

from threadpoolctl import ThreadpoolController


class OneThread:
    """A context that several threads may be in at once: the first to enter sets the limit, the last one lifts it."""

    def __init__(self) -> None:
        self._controller = ThreadpoolController()
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()
