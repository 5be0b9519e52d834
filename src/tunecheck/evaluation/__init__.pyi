"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._evaluate import (
    is_driver as is_driver,
    prepare_run as prepare_run,
    result_or_unanswered as result_or_unanswered,
    run_execution as run_execution,
    uploader_to as uploader_to,
)
from ._execution import DEFAULT_CONCURRENCY as DEFAULT_CONCURRENCY, Execution as Execution
from ._settings import (
    RESULTS_DIR as RESULTS_DIR,
    EvaluateArguments as EvaluateArguments,
    RunArguments as RunArguments,
    RunsElsewhere as RunsElsewhere,
    RunSettings as RunSettings,
)
