"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ..pipeline._finished_rows import PASS_RATE as PASS_RATE
from ._opening import (
    AboutToRun as AboutToRun,
    RunLike as RunLike,
    open_run as open_run,
    read_run as read_run,
    read_runs as read_runs,
)
from ._overviews import (
    FirstScreen as FirstScreen,
    MainFigure as MainFigure,
    RunLine as RunLine,
    describe_run as describe_run,
    first_screen as first_screen,
    main_figure_of as main_figure_of,
    number_text as number_text,
    unit_of as unit_of,
    with_interval as with_interval,
)
from ._table import (
    NONE as NONE,
    OWN_SOURCES as OWN_SOURCES,
    Clusters as Clusters,
    EvaluatorColumns as EvaluatorColumns,
    Kind as Kind,
    Labels as Labels,
    MetricColumn as MetricColumn,
    OpenedRun as OpenedRun,
    ResultsFile as ResultsFile,
    RowSource as RowSource,
    RunInfo as RunInfo,
    RunTable as RunTable,
    State as State,
    clusters_of as clusters_of,
    may_cluster as may_cluster,
)
