"""Finished runs as tables: one reader of rows and metrics for comparisons, gates, reports and plug-ins.

read_runs([base, new], results_dir)     # -> RunTables: ids, contents, and one number a row and metric
open_run(name, results_dir)             # -> OpenedRun: what a name stands for, its rows not yet read
"""

from tunecheck.results._clusters import (
    NONE as NONE,
    Clusters as Clusters,
    Labels as Labels,
    clusters_of as clusters_of,
    may_cluster as may_cluster,
)
from tunecheck.results._opening import (
    AboutToRun as AboutToRun,
    OpenedRun as OpenedRun,
    RunLike as RunLike,
    open_run as open_run,
    read_run as read_run,
    read_runs as read_runs,
)
from tunecheck.results._run_lines import MainFigure as MainFigure, RunLine as RunLine, describe_run as describe_run
from tunecheck.results._sources import RowSource as RowSource
from tunecheck.results._table import (
    OWN_SOURCES as OWN_SOURCES,
    PASS_RATE as PASS_RATE,
    EvaluatorColumns as EvaluatorColumns,
    Kind as Kind,
    MetricColumn as MetricColumn,
    RunInfo as RunInfo,
    RunTable as RunTable,
    State as State,
)
