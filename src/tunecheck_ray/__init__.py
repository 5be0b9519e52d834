"""Many machines: Ray tasks answer and judge the rows of a run, and the driver journals them.

_chunks        rows for a task, and the journal records that come back
_driver        the driver of a run: it journals these records
_chunk_engine  a task's engine
_runner        Ray on the driver: chunks in flight, lost tasks, rows that kill their process
_tasks         Ray workers: one chunk per task
_services      the actor with limits, budget and judges' answers, and its clients in tasks
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
