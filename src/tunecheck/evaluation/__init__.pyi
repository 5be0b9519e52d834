"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._arguments import (
    RESULTS_DIR as RESULTS_DIR,
    EvaluateArguments as EvaluateArguments,
    Keeping as Keeping,
    RunArguments as RunArguments,
    pace_of as pace_of,
)
from ._evaluate import even_unanswered as even_unanswered, run_execution as run_execution, uploader_to as uploader_to
from ._execution import DEFAULT_CONCURRENCY as DEFAULT_CONCURRENCY, Execution as Execution
from ._remote import RunnerFactory as RunnerFactory, TaskRecipe as TaskRecipe, chunk_runner as chunk_runner
