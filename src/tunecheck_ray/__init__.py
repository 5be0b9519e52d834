"""Runs on many machines: Ray tasks answer and judge the rows of a run, and the driver writes the journal.

_driver    the driver: chunks of rows, records, lost tasks, rows that kill their process, and the connection to Ray
_tasks     the code in Ray's processes: tasks, and the actor with limits, budget and judges' answers
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
