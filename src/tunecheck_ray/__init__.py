"""Many machines: the rows of a run are answered and judged by Ray tasks, and journaled by the driver.

_runner   the driver's side: chunks in flight, lost tasks, rows that kill their process
_tasks    what runs in a Ray worker
_services the actor that holds limits, budget and judges' answers, and how tasks reach it
"""
