"""Many machines: the rows of a run are answered and judged by Ray tasks, and journaled by the driver.

_chunks        rows for a task, and the journal records that come back
_driver        the driver of a run: it journals what comes back
_chunk_engine  a task's engine
_runner        the driver's side of Ray: chunks in flight, lost tasks, rows that kill their process
_tasks         what runs in a Ray worker
_services      the actor that holds limits, budget and judges' answers, and how tasks reach it
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
