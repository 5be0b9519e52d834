"""The names with which plug-ins make commands; `__init__.py` loads each from its module."""

from ._app import main as main
from ._check import CheckResult as CheckResult, DataCheck as DataCheck, find_unusable_rows as find_unusable_rows
from ._console import print_json as print_json, print_path as print_path
from ._evaluate.command import evaluate as evaluate
from ._evaluate.evaluator_choice import (
    make_evaluators as make_evaluators,
    settings_by_evaluator as settings_by_evaluator,
)
from ._evaluate.options import (
    AddedOptions as AddedOptions,
    Addition as Addition,
    AfterRun as AfterRun,
    Options as Options,
)
from ._options import (
    DONE as DONE,
    FAILED as FAILED,
    GATING as GATING,
    NOT_MET as NOT_MET,
    RUNNING as RUNNING,
    SCORING as SCORING,
    SHOWING as SHOWING,
    UNDECIDED as UNDECIDED,
    WRONG_USE as WRONG_USE,
    Command as Command,
    CommandOptions as CommandOptions,
    Invocation as Invocation,
    argument as argument,
    command as command,
    flag as flag,
    option as option,
    parse_names as parse_names,
)
from ._running import (
    SIMULATED as SIMULATED,
    WORKSPACE_SIMULATED as WORKSPACE_SIMULATED,
    begin as begin,
    every_row_failed as every_row_failed,
    is_embedded as is_embedded,
    load_named as load_named,
    note_changed as note_changed,
    print_run as print_run,
    recorded_options as recorded_options,
    run_arguments as run_arguments,
    run_errors as run_errors,
    run_summary as run_summary,
)
from ._shared_options import (
    ASKING as ASKING,
    ConversationOptions as ConversationOptions,
    DataCheckOptions as DataCheckOptions,
    JsonOptions as JsonOptions,
    ModelOptions as ModelOptions,
    NamesOptions as NamesOptions,
    ResultsOptions as ResultsOptions,
    ResumableOptions as ResumableOptions,
    RunOptions as RunOptions,
    TrustOptions as TrustOptions,
)
