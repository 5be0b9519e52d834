"""Finished runs as tables, for comparisons, gates, reports and plug-ins.

read_runs([base, new], results_dir)     # -> RunTables: ids, contents, and one number per row and metric
open_run(name, results_dir)             # -> OpenedRun: a run by name, without reading its rows
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
