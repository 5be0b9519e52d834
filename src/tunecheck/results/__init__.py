"""Finished runs as tables: one reader of rows and metrics for comparisons, gates, reports and plug-ins.

read_runs([base, new], results_dir)     # -> RunTables: ids, contents, and one number a row and metric
open_run(name, results_dir)             # -> OpenedRun: a run by name, its rows not read yet
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
