"""`evaluate()` with Azure AI Evaluation's arguments, results and errors, on the pipeline of `tunecheck.evaluate`.

A parameter of an evaluator gets its value from the first of these that exists:

  1. its entry in the evaluator's own `column_mapping`
  2. if the evaluator has none: its entry in the mapping named "default"
  3. if the evaluator has none: a leaf of an object with the parameter's name (`AzureRows.leaf_mapping`)
  4. the target's column with the parameter's name
  5. the data's column with that name; if the evaluator has a mapping of its own, only for a required parameter

A mapped value must exist in every row: a row without it is an error of that evaluator (`RequiredValue`).
"""

import dataclasses
import inspect
import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import cast

from tunecheck import DataError, EvaluationResult, UnansweredError, evaluation, pipeline
from tunecheck.plugins import JSON, UploaderLike, fingerprint, is_shipped
from tunecheck_azure._exceptions import ErrorCategory, as_evaluation_exception, mistake
from tunecheck_azure._model_configurations import AzureAIProject, EvaluatorConfig
from tunecheck_azure._rows import OUTPUTS, AzureRows, RequiredValue, build_table, log_gaps, table_metrics, table_rows

# Matches ${data.question} and ${target.answer.text}. Other texts are refused, as in Azure AI Evaluation.
_REFERENCE = re.compile(r"\$\{(target|data)\.\w+(?:\.\w+)*\}", re.ASCII)


def evaluate(
    *,
    data: str | os.PathLike[str],
    evaluators: Mapping[str, object],
    evaluation_name: str | None = None,
    target: Callable[..., object] | None = None,
    evaluator_config: Mapping[str, EvaluatorConfig] | None = None,
    azure_ai_project: str | AzureAIProject | None = None,
    output_path: str | os.PathLike[str] | None = None,
    fail_on_evaluator_errors: bool = False,
    tags: Mapping[str, str] | None = None,
    **kwargs: object,
) -> EvaluationResult:
    """Run a target and evaluators over a file, as `azure.ai.evaluation.evaluate` does, and write a run folder.

    `kwargs` may contain `credential`, `user_agent`, and arguments of Tunecheck's `evaluate` (`concurrency`, `workers`,
    `resume`, `results_dir` …). Other arguments are ignored.

    Raises:
        EvaluationException: an argument or the data is wrong, or every call of the target failed. With
            `fail_on_evaluator_errors`, also if a call of an evaluator failed.
    """
    with as_evaluation_exception():
        _check(data, evaluators, evaluation_name, target, output_path)
        # Azure AI Evaluation ignores a credential without a project, which `uploader_to` would refuse.
        credential = None if azure_ai_project is None else kwargs.get("credential")
        agent = cast("str | None", kwargs.get("user_agent"))
        uploader = evaluation.uploader_to(azure_ai_project, credential, agent, allow_simulated=False)

        script = _Script(Path(data), target, evaluators, {} if evaluator_config is None else evaluator_config)

        texts = {str(key): str(value) for key, value in (tags or {}).items()}
        fail = fail_on_evaluator_errors
        settings = evaluation.RunSettings(
            **_tunecheck_arguments(kwargs), name=evaluation_name, tags=texts, fail_on_evaluator_errors=fail
        )

        result = _run(script.execution(settings), uploader)
        rows = [*result.rows]

        table = build_table(rows, script.columns, evaluators, script.dataset.gaps)

        # Only now it is known which columns the target returns.
        if target is not None:
            answered = {column for row in rows for column in row if column.startswith(OUTPUTS)}
            script.check_parameters({column.removeprefix(OUTPUTS) for column in answered})

        result["rows"], result["metrics"] = table_rows(table, len(rows)), table_metrics(table, evaluators)
        log_gaps(rows, table, evaluators, result.run_dir)

        if output_path is not None:
            _write(pipeline.check_output_path(output_path), result)
        return result


def _run(execution: evaluation.Execution, uploader: UploaderLike | None) -> EvaluationResult:
    """Run the execution and return its result, or raise EvaluationException if the target answered no row."""
    try:
        return evaluation.run_execution(execution, uploader, None)
    except UnansweredError as error:
        raise mistake(
            f"Evaluation target failed to produce any results. Please check the logs at {error.result.run_dir} "
            f"for more details about cause of failure: {error}",
            ErrorCategory.FAILED_EXECUTION,
            personal=True,
        ) from error


def _write(path: Path, result: EvaluationResult) -> None:
    """Write the result as one JSON file in Azure AI Evaluation's form."""
    rows, metrics = cast("list[dict[str, JSON]]", result["rows"]), cast("dict[str, JSON]", result["metrics"])
    pipeline.write_azure_results(path, rows, metrics, cast("str | None", result["studio_url"]))


def _tunecheck_arguments(kwargs: Mapping[str, object]) -> evaluation.EvaluateArguments:
    """Return the arguments in `kwargs` that Tunecheck's `evaluate` takes.

    Without `concurrency`, the environment variable `PF_WORKER_COUNT` sets it, as in Azure AI Evaluation.
    """
    arguments = {name: value for name, value in kwargs.items() if name in evaluation.EvaluateArguments.__annotations__}
    workers = os.environ.get("PF_WORKER_COUNT", "")
    concurrency = {"concurrency": int(workers)} if workers.isdecimal() else {}
    return cast("evaluation.EvaluateArguments", concurrency | arguments)


# -- checks of arguments


def _check(data: object, evaluators: object, evaluation_name: object, target: object, output_path: object) -> None:
    """Check the arguments before any file is read.

    Raises:
        EvaluationException: an argument is wrong, with the text of Azure AI Evaluation.
    """
    paths = (str, os.PathLike)
    if data is None:
        raise mistake("The 'data' parameter is required for evaluation.")
    if not isinstance(data, paths):
        raise mistake("The 'data' parameter must be a string or a path-like object.")
    if not os.path.exists(data):  # noqa: PTH110 - Path("") would be the current folder
        raise mistake(f"The input data file path '{data}' does not exist.", personal=True)

    if target is not None and not callable(target):
        raise mistake("The 'target' parameter must be a callable function.")

    if not evaluators:
        raise mistake("The 'evaluators' parameter is required and cannot be None or empty.")
    if not isinstance(evaluators, dict):
        raise mistake("The 'evaluators' parameter must be a dictionary.")

    if output_path is not None and not isinstance(output_path, paths):
        raise mistake("The 'output_path' parameter must be a string or a path-like object.")
    folder = os.path.dirname(output_path) if output_path is not None else ""  # noqa: PTH120 - shown as written
    if folder and not Path(folder).exists():
        message = f"The output directory '{folder}' does not exist. Please create the directory manually."
        raise mistake(message, personal=True)

    if graders := [name for name, evaluator in evaluators.items() if _is_grader(evaluator)]:
        raise mistake(f"evaluators {', '.join(graders)}: graders of Azure OpenAI need azure.ai.evaluation's evaluate()")

    if evaluation_name is not None and not (isinstance(evaluation_name, str) and evaluation_name.strip()):
        raise mistake("The 'evaluation_name' parameter must be a non-empty string.")


def _is_grader(evaluator: object) -> bool:
    """True for a grader of Azure OpenAI, which only the service can run."""
    # By name, because the package need not be installed.
    kinds = type(evaluator).__mro__
    return any(kind.__name__ == "AzureOpenAIGrader" and kind.__module__.startswith("azure.ai.") for kind in kinds)


def _needed_mapping(mapping: Mapping[str, object], name: str, columns: Collection[str]) -> dict[str, pipeline.Mapped]:
    """Return the parsed column mapping of the evaluator `name`; `columns` are those of the data.

    `${data.a.b}` means the column `a.b` if the data has it, else a nested value. Each row must have every mapped value,
    as in Azure AI Evaluation.

    Raises:
        EvaluationException: a value is not a reference to a column.
    """
    if not all(isinstance(value, str) and _REFERENCE.fullmatch(value) for value in mapping.values()):
        message = "Unexpected references detected in 'column_mapping'. Ensure only ${target.} and ${data.} are used."
        raise mistake(message)

    parsed: dict[str, pipeline.Mapped] = {}
    for parameter, mapped in pipeline.parse_mapping(mapping, f"evaluator_config[{name!r}]").items():
        if isinstance(mapped, pipeline.Reference):
            # A column may have a dot in its name.
            full_name = ".".join(map(str, mapped.steps))
            steps = (full_name,) if mapped.source == "data" and full_name in columns else mapped.steps
            mapped = RequiredValue(mapped.source, steps, mapped.text)
        parsed[parameter] = mapped

    return parsed


# -- the execution


class _Script:
    """The data, target and evaluators of one call of `evaluate()`, bound as Azure AI Evaluation binds them."""

    def __init__(
        self,
        data: Path,
        target: Callable[..., object] | None,
        evaluators: Mapping[str, object],
        config: Mapping[str, EvaluatorConfig],
    ) -> None:
        """Read the data's columns and bind the evaluators.

        Raises:
            EvaluationException: the data cannot be read, or a parameter of the target or of an evaluator has no column.
        """
        self.dataset = AzureRows(data, numbered=target is not None)

        try:
            self.columns = self.dataset.scan().columns
        except DataError as error:
            formats = "Supported formats are JSONL and CSV"
            message = f"Unable to load data from '{data}'. {formats}. Detailed error: {error}."
            raise mistake(message, personal=True) from error

        self._target = None if target is None else _adapt(target, only_required=True)
        if self._target is not None:
            _check_target(self._target, self.columns)

        self._layers = self._mapping(evaluators, config)

        # The columns of the target's answers: none without a target; None means that they are not known yet.
        answer_columns = frozenset[str]() if target is None else None
        self._evaluators = [
            pipeline.bind_evaluator(
                name, _adapt_evaluator(each), self._layers[name], answer_columns, only_mapped=name in self._own_mappings
            )
            for name, each in evaluators.items()
        ]

        # With a target, its columns are known only after the run: `evaluate` then checks the parameters.
        if target is None:
            self.check_parameters(None)

    def _mapping(self, evaluators: Collection[str], config: Mapping[str, EvaluatorConfig]) -> pipeline.MappingLayers:
        """Return the mapping of each evaluator: its own mapping, or else the default. Set `_own_mappings`.

        In the default, leaves of nested objects can be used by their names. The target's mapping is empty, because the
        target takes columns by their names.
        """
        mappings = {name: entry.get("column_mapping") for name, entry in config.items()}
        self._own_mappings = {name: mapping for name, mapping in mappings.items() if isinstance(mapping, dict)}
        parsed = {name: _needed_mapping(mapping, name, self.columns) for name, mapping in self._own_mappings.items()}

        default: dict[str, pipeline.Mapped] = {**self.dataset.leaf_mapping(), **parsed.get("default", {})}
        return {name: parsed.get(name, default) for name in evaluators} | {"default": default, "target": {}}

    def execution(self, settings: evaluation.RunSettings) -> evaluation.Execution:
        """Return the execution of the target and the evaluators over the data, which has NaN for missing values."""
        target = None
        if self._target is not None:
            concurrency = settings.concurrency or evaluation.DEFAULT_CONCURRENCY
            target = pipeline.CallableTarget(self._target, {}, concurrency, settings.target_timeout)
        return evaluation.Execution(
            self.dataset, target, self._evaluators, self._layers, settings, gaps_are_errors=False
        )

    def check_parameters(self, answers: Collection[str] | None) -> None:
        """Check that every required parameter of an evaluator has a column.

        `answers` are the target's columns, or None without a target.

        Raises:
            EvaluationException: parameters have no column; the text names them and their evaluators.
        """
        missing = {evaluator.name: self._missing_parameters(evaluator, answers or ()) for evaluator in self._evaluators}
        lines = "".join(f"- {name}: {parameters}\n" for name, parameters in missing.items() if parameters)
        if not lines:
            return

        generated = "- Verify that the target is generating the necessary columns for the evaluators. "
        generated += f"Currently generated columns: {answers} \n"
        raise mistake(
            f"Some evaluators are missing required inputs:\n{lines}\nTo resolve this issue:\n"
            f"- Ensure the data contains required inputs.\n{'' if answers is None else generated}"
            "- Check that the column mapping is correctly configured.",
            ErrorCategory.MISSING_FIELD,
        )

    def _missing_parameters(self, evaluator: pipeline.BoundEvaluator, answers: Collection[str]) -> list[str]:
        """Return the required parameters without a column, or an empty list.

        If the evaluator takes several sets of inputs, the set that lacks the fewest counts.
        """
        mapping = self._layers[evaluator.name]
        choices = []
        for choice in evaluator.signature.choices:
            required = [name for name, is_required in choice.items() if is_required]
            choices.append([name for name in required if not self._has_value(mapping.get(name), name, answers)])
        return min(choices, key=len, default=[])

    def _has_value(self, mapped: pipeline.Mapped | None, name: str, answers: Collection[str]) -> bool:
        """Return whether a parameter has a value: from its mapping, or from a column with its name.

        `mapped` is its entry in the evaluator's mapping, None without one; `answers` are the target's columns.
        """
        if isinstance(mapped, pipeline.Reference):
            return self.dataset.has(mapped) if mapped.source == "data" else mapped.steps[0] in answers
        return mapped is not None or name in self.columns or name in answers


def _check_target(target: "_Adapted", columns: Collection[str]) -> None:
    """Refuse data that has no column for a target's parameter, or has a column for an earlier target's output."""
    if any(column.startswith("__outputs.") for column in columns):
        raise mistake('The column cannot start from "__outputs." if target was defined.')
    missing = [name for name in target.__signature__.parameters if name not in columns]
    if missing:
        raise mistake(f"Missing required inputs for target: {missing}.", ErrorCategory.MISSING_FIELD)


def _adapt_evaluator(evaluator: object) -> object:
    """Wrap a user's evaluator, which may return any value.

    Tunecheck's and Azure's evaluators, classes, and objects that cannot be called are returned unchanged.
    """
    home = str(getattr(evaluator, "__module__", None) or type(evaluator).__module__)
    is_known = is_shipped(home) or home.partition(".")[0] == "azure"
    if is_known or not callable(evaluator) or isinstance(evaluator, type):
        return evaluator
    return _adapt(evaluator)


class _Adapted:
    """A wrapper that returns a function's result as columns: the keys of a dict or dataclass, else `output`."""

    def __init__(self, function: Callable[..., object], *, only_required: bool) -> None:
        """Wrap a function. The wrapper has its name and parameters, and all of them can be given by name.

        If `only_required`, the wrapper lacks parameters with a default, so that columns are not bound to them.
        """
        self._function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

        signature = inspect.signature(function)
        # The pipeline gives arguments by name, which a positional-only parameter refuses.
        parameters = [
            each.replace(kind=each.POSITIONAL_OR_KEYWORD) if each.kind is each.POSITIONAL_ONLY else each
            for each in signature.parameters.values()
        ]

        # Azure AI Evaluation never passes a column to a target's parameter with a default.
        if only_required:
            bound_by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            parameters = [each for each in parameters if each.kind in bound_by_name and each.default is each.empty]
        self.__signature__ = signature.replace(parameters=parameters)

    @property
    def arguments(self) -> dict[str, JSON] | None:
        """The arguments from which the pipeline computes the evaluator's fingerprint."""
        known = fingerprint(self._function)
        return None if known is None else {"function": known}

    def __call__(self, **inputs: object) -> Mapping[str, object] | Awaitable[Mapping[str, object]]:
        """Return the function's result as columns; awaitable if the function returns an awaitable."""
        # A synchronous function may return an awaitable, as a lambda does that calls a coroutine function.
        value = self._function(**inputs)
        return _await_columns(value) if inspect.isawaitable(value) else _columns(value)


class _AsyncAdapted(_Adapted):
    async def __call__(self, **inputs: object) -> Mapping[str, object]:
        return await _await_columns(cast("Awaitable[object]", self._function(**inputs)))


def _adapt(function: Callable[..., object], *, only_required: bool = False) -> _Adapted:
    """Return a wrapper of a function: asynchronous for a coroutine function, otherwise synchronous."""
    return (_AsyncAdapted if pipeline.is_async(function) else _Adapted)(function, only_required=only_required)


async def _await_columns(value: Awaitable[object]) -> Mapping[str, object]:
    """Await a value, and return it as columns."""
    return _columns(await value)


def _columns(value: object) -> Mapping[str, object]:
    """Return a function's result as columns: those of a dataclass or mapping, or any other value as `output`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value if isinstance(value, Mapping) else {"output": value}
