"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._aggregate import EvaluatorRow as EvaluatorRow
from ._callables import CallableTarget as CallableTarget
from ._chunk_engine import ChunkRunner as ChunkRunner, run_error as run_error
from ._chunks import (
    TARGET as TARGET,
    Chunk as Chunk,
    ChunkSource as ChunkSource,
    Portion as Portion,
    SharedSettings as SharedSettings,
    died as died,
)
from ._costs import Budget as Budget, Reservation as Reservation
from ._finished_rows import (
    REPEATED as REPEATED,
    RESULT as RESULT,
    ResultRow as ResultRow,
    Verdict as Verdict,
    VerdictReader as VerdictReader,
    counted_metric as counted_metric,
    counted_metrics as counted_metrics,
    evidence_of as evidence_of,
    read_failures as read_failures,
)
from ._lanes import (
    DEFAULT_TIMEOUT_S as DEFAULT_TIMEOUT_S,
    AsyncExecutor as AsyncExecutor,
    Executor as Executor,
    ThreadExecutor as ThreadExecutor,
    Work as Work,
)
from ._mapping import (
    ColumnMissingError as ColumnMissingError,
    Mapped as Mapped,
    MappingLayers as MappingLayers,
    Reference as Reference,
    is_async as is_async,
    parse_mapping as parse_mapping,
)
from ._results import check_output_path as check_output_path, write_azure_results as write_azure_results
from ._scoring import (
    BoundEvaluator as BoundEvaluator,
    Outcome as Outcome,
    Output as Output,
    Partial as Partial,
    bind_evaluator as bind_evaluator,
)
from ._workers import ProcessExecutor as ProcessExecutor, can_be_sent as can_be_sent, is_of_workspace as is_of_workspace
