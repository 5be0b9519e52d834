"""Many machines: Ray tasks answer and judge the rows of a run, and the driver journals them.

_driver    the driver of a run on tasks: rows out, records in, lost tasks, rows that kill their process
_runner    Ray on the driver: chunks in flight
_tasks     Ray workers: one chunk per task
_services  the actor with limits, budget and judges' answers, and its clients in tasks
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
