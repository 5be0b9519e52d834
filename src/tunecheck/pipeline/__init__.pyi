"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from .._files import (
    Answer as Answer,
    Error as Error,
    ModelCall as ModelCall,
    RowVerdicts as RowVerdicts,
    Step as Step,
    Verdicts as Verdicts,
)
from .._records import Journal as Journal
from .._targets import Load as Load, group_of as group_of
from ._chunks import UNREAD as UNREAD, Chunk as Chunk, ChunkRunner as ChunkRunner, Portion as Portion
from ._costs import (
    Budget as Budget,
    Reservation as Reservation,
    Spending as Spending,
    cost_of as cost_of,
    cost_text as cost_text,
)
from ._engine import Engine as Engine
from ._finished_rows import (
    REPEATED as REPEATED,
    RESULT as RESULT,
    FailureGroup as FailureGroup,
    Failures as Failures,
    RecordedVerdict as RecordedVerdict,
    ResultRow as ResultRow,
    RowsView as RowsView,
    VerdictReader as VerdictReader,
    check_output_path as check_output_path,
    counted_metric as counted_metric,
    counted_metrics as counted_metrics,
    evidence_of as evidence_of,
    primaries_with_pass_rate as primaries_with_pass_rate,
    read_failures as read_failures,
    write_azure_results as write_azure_results,
    write_table as write_table,
)
from ._journal_reader import JournalReader as JournalReader
from ._mapping import (
    bind_evaluator as bind_evaluator,
    is_async as is_async,
    parse_mapping as parse_mapping,
    read_layers as read_layers,
)
from ._model_calls import CachedResults as CachedResults, RunCalls as RunCalls, SharedCalls as SharedCalls
from ._plan import CallableTarget as CallableTarget, Plan as Plan, Tally as Tally
from ._results import (
    Aggregator as Aggregator,
    EvaluatorRow as EvaluatorRow,
    ResultsWriter as ResultsWriter,
    RowState as RowState,
)
from ._scoring import (
    BoundEvaluator as BoundEvaluator,
    ColumnMissingError as ColumnMissingError,
    Constant as Constant,
    Mapped as Mapped,
    MappingLayers as MappingLayers,
    Outcome as Outcome,
    Output as Output,
    Partial as Partial,
    Reference as Reference,
    row_kind_reader as row_kind_reader,
    value_reader as value_reader,
)
from ._worker_queues import (
    DEFAULT_TIMEOUT_S as DEFAULT_TIMEOUT_S,
    AsyncExecutor as AsyncExecutor,
    Executor as Executor,
    ThreadExecutor as ThreadExecutor,
    Work as Work,
)
from ._workers import ProcessExecutor as ProcessExecutor, can_be_sent as can_be_sent, is_of_workspace as is_of_workspace
