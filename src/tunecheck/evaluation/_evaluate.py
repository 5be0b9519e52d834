"""The front door of the pipeline: `evaluate()`, in the conventions of Azure AI Evaluation, and what it returns."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, Unpack

from tunecheck._errors import ConfigurationError, MissingExtraError, RunError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck._progress import ProgressCallback
from tunecheck._targets import Apart, Target
from tunecheck._trust import Trust
from tunecheck.datasets._reading import Data, Dataset, open_dataset
from tunecheck.datasets._repeated import repeated
from tunecheck.endpoints._base import Endpoint
from tunecheck.endpoints._definition import load_endpoint
from tunecheck.endpoints._target import EndpointTarget
from tunecheck.evaluation._arguments import RESULTS_DIR, EvaluateArguments, Keeping, RunLike, pace_of, question_of
from tunecheck.evaluation._drivers import drive, entrust, in_format_of, is_driver
from tunecheck.evaluation._ending import Finished
from tunecheck.evaluation._execution import DEFAULT_CONCURRENCY, Execution
from tunecheck.evaluation._rescoring import RecordedRun
from tunecheck.pipeline._callables import CallableTarget
from tunecheck.pipeline._lanes import DEFAULT_TIMEOUT_S
from tunecheck.pipeline._mapping import MappingLayers, parse_mapping, read_layers
from tunecheck.pipeline._plan import Pace
from tunecheck.pipeline._results import check_output_path, write_azure_results
from tunecheck.pipeline._scoring import BoundEvaluator, bind_evaluator
from tunecheck.plugins import UploaderLike, find, uploader
from tunecheck.runs._store import find_run

if TYPE_CHECKING:
    import pandas


TargetLike: TypeAlias = "Target | Endpoint | Callable[..., object] | str | os.PathLike[str]"


class EvaluationResult(dict[str, object]):
    """`{"rows", "metrics", "studio_url"}`, as Azure AI Evaluation returns it, and where the rest is.

    `run_dir` is the run's folder; `by_group` holds the metrics by `row_kind` and by each `group_by` column:
    `{column: {value: metrics}}`; `usage` the calls, tokens and cost of each evaluator that asks models, and of the
    target: `{name: {"calls", "input_tokens", "output_tokens", "cost", …}}`; `simulated` says that some
    answer, or judge's verdict, is no model's; `notes` are remarks on how it ran; `reused` counts the `answers` and
    `verdicts` that were recorded before, in this run or the one it reuses; `aggregate_errors` says, by evaluator, why
    its `__aggregate__` failed: `{name: {"type", "message"}}`; `decision` is what a run that may stop early has decided.
    """

    def __init__(self, finished: Finished) -> None:
        super().__init__(rows=finished.loaded, metrics=finished.metrics, studio_url=None)
        self.run_dir: Path = finished.run.folder
        self.by_group = finished.by_group
        self.usage = finished.usage
        self.row_count = finished.row_count
        self.failed_row_count = finished.failed_row_count
        self.simulated = finished.simulated
        self.notes = finished.notes
        self.reused = finished.reused
        self.decision = finished.decision
        self.aggregate_errors = {
            name: {"type": error.type, "message": error.message} for name, error in finished.aggregate_errors.items()
        }
        self._rows = finished.rows

    def _repr_html_(self) -> str:
        """How a notebook shows it: each evaluator's rate or mean with its interval, as a chart and a table."""
        from tunecheck.evaluation._shown import result_html

        return result_html(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("to_pandas()", "pandas") from None
        return pandas.DataFrame(list(self._rows))


class UnansweredError(RunError):
    """The target failed on every row; `result` is the finished run, whose rows say how."""

    def __init__(self, result: EvaluationResult, finished: Finished) -> None:
        error = finished.rows[0].get("error.target")
        first = f"{error['type']}: {error['message']}" if isinstance(error, dict) else "no answer"
        super().__init__(
            f"the target failed on every row, first with {first}; mend it, and --resume {finished.run.id} tries again"
        )
        self.result = result


def evaluate(
    *,
    data: Data | None = None,
    evaluators: Mapping[str, object] | None = None,
    evaluation_name: str | None = None,
    target: TargetLike | None = None,
    evaluator_config: Mapping[str, object] | None = None,
    azure_ai_project: object = None,
    output_path: str | os.PathLike[str] | None = None,
    fail_on_evaluator_errors: bool = False,
    tags: Mapping[str, str] | None = None,
    credential: object = None,
    allow_simulated: bool = False,
    user_agent: str | None = None,
    **arguments: Unpack[EvaluateArguments],
) -> EvaluationResult:
    """Run a target and evaluators over a data set; keep everything in a run folder.

    Args:
        data: a path (.jsonl, .json, .csv, .parquet), a list of dicts, a DataFrame, or an iterable of dicts.
        evaluators: callables that take keywords, classes, or installed names, by name; by default the data set's own.
        evaluation_name: the data set's by default; it keeps `tags` (texts by name), and `command` for resuming.
        target: a function, an Endpoint, a Target, or an endpoint's name or file; None: the data holds the answers.
        evaluator_config: `{"default": {"column_mapping": {…}}, "<evaluator>": {…}}`; `target` may have one, too.
        azure_ai_project: upload to this Foundry project (its endpoint) or hub project (a dict of its three names).
        output_path: also write Azure's one JSON file there; run folders are in `results_dir`.
        fail_on_evaluator_errors: stop at the first one.
        credential: signs the upload in, by `get_token`; `user_agent` is appended to that of calls.
        allow_simulated: upload what no model answered, tagged so.

    Keyword Args:
        concurrency: calls under way at once, within the endpoint's `limits.concurrency`; by default that, else 10.
        workers: processes for evaluators, 0 for none; by default for those that burn CPU, and workspace files.
        max_cost: stop before it costs more.
        resume: finish this run; `reuse`: a new one with what is unchanged of it; `accept_damage`: a damaged run, too.
        results_dir: the folder of run folders.
        progress: show a bar, or call this with each `Progress`; by default only a notebook has a bar.
        limit: only the first rows, each `repeat` times, which adds `pass_at_k`.
        number_ids: call a row with an earlier one's id `<id>@<its number>` instead of refusing it.
        group_by: columns by whose values the metrics are reported, too.
        cluster: the column by which rows are not independent, in comparisons of the run; `none`: all rows are.
        evaluator_timeout: seconds one call may take; `target_timeout`: the same for a target.
        until_decided: stop once it is `better_than` this run or worse, or `no_worse_than` it by `margin`; decided on
            metrics that `decide_on` names, with `confidence`, the rows in an order that goes by `seed`.
        on: where a run of the command line is answered and judged, as its --on says.
        trust: what a command line allows; without it, data names what docs/security.md says.

    Raises:
        ConfigurationError: an argument is wrong; the text says which, and what was meant.
        UnansweredError: the target failed on every row.
        RunError, UploadError: it was stopped, or finished and not uploaded; the text says how to go on.
    """
    _refuse_unknown(arguments)
    uploader = uploader_to(azure_ai_project, credential, user_agent, allow_simulated=allow_simulated)
    pace = pace_of(arguments, fail_on_evaluator_errors=fail_on_evaluator_errors)
    keeping = Keeping.of(arguments, name=evaluation_name, tags=tags)
    rows = _rows(data, arguments)
    trust = arguments.get("trust") or Trust()
    execution = _prepared(rows, target, evaluators, evaluator_config, user_agent, pace, keeping, trust)
    execution.question = question_of(arguments, allow_simulated=allow_simulated)
    execution.on = arguments.get("on")
    return run_execution(execution, uploader, output_path, resume=arguments.get("resume"), reuse=arguments.get("reuse"))


def prepared(
    *,
    data: Data,
    evaluators: Mapping[str, object],
    target: TargetLike | None,
    evaluator_config: Mapping[str, object] | None,
    evaluation_name: str | None,
    **arguments: Unpack[EvaluateArguments],
) -> Execution:
    """What `evaluate` would run with these arguments, checked.

    Raises:
        ConfigurationError: as `evaluate`.
    """
    keeping = Keeping.of(arguments, name=evaluation_name, tags=None)
    pace = pace_of(arguments, fail_on_evaluator_errors=False)
    trust = arguments.get("trust") or Trust()
    return _prepared(_rows(data, arguments), target, evaluators, evaluator_config, None, pace, keeping, trust)


_P = ParamSpec("_P")


def even_unanswered(run: Callable[_P, EvaluationResult], *args: _P.args, **arguments: _P.kwargs) -> EvaluationResult:
    """What `run` returns, also where the target failed on every row: for those who tell of it themselves."""
    try:
        return run(*args, **arguments)
    except UnansweredError as error:
        return error.result


def score(
    run: RunLike,
    *,
    evaluators: Mapping[str, object],
    evaluator_config: Mapping[str, object] | None = None,
    evaluation_name: str | None = None,
    workers: int | None = None,
    concurrency: int | None = None,
    progress: bool | ProgressCallback | None = None,
    results_dir: str | os.PathLike[str] = RESULTS_DIR,
    group_by: str | Sequence[str] = (),
    cluster: str | None = None,
    max_cost: float | None = None,
    evaluator_timeout: float = DEFAULT_TIMEOUT_S,
    command: Mapping[str, JSON] | None = None,
    resume: RunLike | None = None,
    accept_damage: bool = False,
    trust: Trust | None = None,
) -> EvaluationResult:
    """Judge a finished run's recorded answers with other evaluators, in a new run; no endpoint is asked.

    Verdicts of evaluators that have not changed are reused. The mapping is the old run's, under `evaluator_config`.
    `resume` finishes such a new run that was cut off.

    Raises:
        ConfigurationError: there is no such run, it has not finished, or an argument is wrong.
        RunError: it is damaged, and not `accept_damage`; or the new run was stopped.
    """
    recorded = RecordedRun(find_run(run, Path(results_dir)), accept_damage=accept_damage)
    _check_names(evaluators)
    layers = read_layers(evaluator_config, evaluators, recorded.mapping("default"), recorded.mapping)
    answering = recorded.target()
    trust = trust or Trust()
    bound, rows = _bind_evaluators(evaluators, layers, evaluator_config, answering, trust), recorded.dataset()
    entrust(trust.of(recorded.run.manifest_file), rows, answering, bound)
    pace = Pace(concurrency, workers, max_cost, progress, False, accept_damage, evaluator_timeout)
    name = evaluation_name or recorded.name
    keeping = Keeping(name=name, command=command, group_by=group_by, cluster=cluster, results_dir=results_dir)
    execution = Execution(rows, answering, bound, layers, pace, keeping, inherited=recorded.decision)
    reuse = recorded.run.folder if resume is None else None
    return EvaluationResult(execution.run(resume=resume, reuse=reuse))


def _rows(data: Data | None, arguments: EvaluateArguments) -> Dataset:
    if data is None:
        raise ConfigurationError("evaluate() needs data=: a path, a list of dicts, a DataFrame or an iterable of dicts")
    dataset = open_dataset(data, limit=arguments.get("limit"), number_ids=arguments.get("number_ids", False))
    return repeated(dataset, arguments.get("repeat", 1))


def _prepared(
    dataset: Dataset,
    target: TargetLike | None,
    evaluators: Mapping[str, object] | None,
    config: Mapping[str, object] | None,
    user_agent: str | None,
    pace: Pace,
    keeping: Keeping,
    trust: Trust,
) -> Execution:
    """Who answers and who judges, with the data set's defaults where nothing else was said."""
    of_data = trust.of(*dataset.files[::-1])
    naming = of_data if evaluators is None else trust
    if evaluators is None:
        evaluators = {name: name for name in dataset.defaults.evaluators}
    _check_names(evaluators)
    layers = read_layers(config, evaluators, dataset.defaults.column_mapping)
    chosen = _chosen_target(target, dataset)
    if isinstance(chosen, (str, os.PathLike)):
        chosen = load_endpoint(os.fspath(chosen), trust=of_data if target is None else trust)
    answering = _make_target(chosen, dataset, config, pace, user_agent, of_data)
    if pace.concurrency is not None and isinstance(endpoint := getattr(answering, "endpoint", None), Endpoint):
        endpoint.allow(pace.concurrency)
        if answering is not None and endpoint.concurrency is not None and endpoint.concurrency < pace.concurrency:
            most = f"{endpoint.concurrency} calls at once, as the endpoint's limits.concurrency says"
            answering.notes = [*answering.notes, f"{most}, and not the {pace.concurrency} asked for"]
    if pace.workers != 0 and isinstance(endpoint := getattr(answering, "endpoint", None), Endpoint):
        endpoint.isolate()
    for each in (answering, getattr(answering, "endpoint", None)):
        if isinstance(each, Apart) and pace.target_timeout != DEFAULT_TIMEOUT_S:
            each.limit_s = pace.target_timeout
    bound = _bind_evaluators(evaluators, layers, config, answering, naming)
    entrust(trust.of(*dataset.files), dataset, answering, bound)
    return Execution(dataset, answering, bound, layers, pace, keeping)


def run_execution(
    execution: Execution,
    uploader: UploaderLike | None,
    output_path: str | os.PathLike[str] | None,
    *,
    resume: RunLike | None,
    reuse: RunLike | None,
) -> EvaluationResult:
    """Run it, write Azure's file and upload, where that is asked for; whether it can be is checked first."""
    path = check_output_path(output_path) if output_path is not None else None
    if uploader is not None:
        uploader.check(simulated=execution.target is not None and execution.target.simulated)
    finished = execution.run(resume=resume, reuse=reuse, output_path=path)
    result = EvaluationResult(finished)
    if finished.row_count and finished.unanswered_count == finished.row_count:
        raise UnansweredError(result, finished)
    if uploader is not None:
        result["studio_url"] = url = uploader.upload(finished.run).url
        if path is not None:
            write_azure_results(path, finished.rows, finished.metrics, url)
    return result


def _refuse_unknown(arguments: Mapping[str, object]) -> None:
    known = EvaluateArguments.__annotations__.keys()
    if unknown := arguments.keys() - known:
        name = min(unknown)
        named = [each for each in inspect.signature(evaluate).parameters if each != "arguments"]
        raise ConfigurationError(f"evaluate() has no argument {name!r}{did_you_mean(name, [*named, *known])}")


def uploader_to(
    project: object, credential: object, user_agent: str | None, *, allow_simulated: bool
) -> UploaderLike | None:
    """What uploads the results, checked before anything is asked."""
    if project is None:
        if credential is not None:
            raise ConfigurationError("credential is for an upload: give its destination, azure_ai_project=…")
        return None
    make = uploader("foundry")
    return make(project, credential=credential, allow_simulated=allow_simulated, user_agent=user_agent)


def _chosen_target(target: TargetLike | None, dataset: Dataset) -> TargetLike | None:
    """Who answers: whom the caller says, else whom the data set names."""
    named = dataset.defaults.target
    if target is None and is_driver(named):
        raise ConfigurationError(f"{dataset.name}: its rows take a {named} with an endpoint; say which, target=…")
    return named if target is None else target


def _make_target(
    target: Target | Endpoint | Callable[..., object] | None,
    dataset: Dataset,
    config: Mapping[str, object] | None,
    pace: Pace,
    user_agent: str | None,
    trust: Trust,
) -> Target | None:
    own = _own_mapping(config, "target")
    if isinstance(target, Endpoint):
        if user_agent is not None:
            target.sign(user_agent)
        driver, parameters = dataset.defaults.target, dataset.defaults.conversation
        if driver is None or not is_driver(driver):  # one request a row
            if parameters:
                raise ConfigurationError(f"{dataset.name}: {next(iter(parameters))} is for rows of several turns")
            return EndpointTarget(target, mapping=_endpoint_mapping(own))
        if own:
            raise ConfigurationError(f"evaluator_config maps columns for 'target', and a {driver} takes whole rows")
        return drive(driver, target, parameters, trust)
    if user_agent is not None:
        raise ConfigurationError("user_agent is sent to endpoints, and the target is not an endpoint")
    if target is None or isinstance(target, Target):
        if own:
            raise ConfigurationError("evaluator_config maps columns for 'target', and the target takes whole rows")
        return target
    if isinstance(target, type) and issubclass(target, (Target, Endpoint)):
        raise ConfigurationError(f"target is the class {target.__name__}; give an instance of it")
    if callable(target):
        mapping = parse_mapping(own, "evaluator_config['target']")
        return CallableTarget(target, mapping, pace.concurrency or DEFAULT_CONCURRENCY, pace.target_timeout)
    raise ConfigurationError(f"target is a {type(target).__name__}; expected a function, an Endpoint or a Target")


def _endpoint_mapping(own: Mapping[str, object]) -> dict[str, str]:
    for name, value in own.items():
        if not isinstance(value, str):
            raise ConfigurationError(f"evaluator_config['target'], {name!r}: {value!r} is not a reference to a column")
    return {name: str(value) for name, value in own.items()}


def _own_mapping(config: Mapping[str, object] | None, name: str) -> dict[str, object]:
    entry = (config or {}).get(name, {})
    mapping = entry.get("column_mapping", entry) if isinstance(entry, Mapping) else {}
    return dict(mapping or {})


def _bind_evaluators(
    evaluators: Mapping[str, object],
    layers: MappingLayers,
    config: Mapping[str, object] | None,
    target: Target | None,
    trust: Trust,
) -> list[BoundEvaluator]:
    bound = []
    columns = frozenset[str]() if target is None else target.columns
    for name, evaluator in evaluators.items():
        given = find("evaluators", evaluator, trust=trust) if isinstance(evaluator, str) else evaluator
        ready = bind_evaluator(name, in_format_of(target, given), layers[name], columns)
        _check_own_parameters(ready, _own_mapping(config, name))
        bound.append(ready)
    return bound


def _check_names(evaluators: object) -> None:
    if not isinstance(evaluators, Mapping) or not evaluators:
        raise ConfigurationError("evaluators must be a dict of at least one evaluator by name")
    for name in evaluators:
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(f"an evaluator's name must be a text, not {name!r}")
        if name in ("target", "default", "results", "cause"):
            raise ConfigurationError(f"an evaluator cannot be called {name!r}: that name is reserved")
    for name in evaluators:
        longer = next((other for other in evaluators if other.startswith(f"{name}.")), None)
        if longer is not None:
            raise ConfigurationError(
                f"evaluators {name!r} and {longer!r} would share result columns; rename one of them"
            )


def _check_own_parameters(evaluator: BoundEvaluator, own: Mapping[str, object]) -> None:
    known = {parameter for choice in evaluator.signature.choices for parameter in choice}
    for parameter in own:
        if parameter not in known and not evaluator.signature.takes_any:
            raise ConfigurationError(
                f"evaluator {evaluator.name!r} has no parameter {parameter!r}{did_you_mean(parameter, known)}"
            )
