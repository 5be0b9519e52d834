"""`evaluate()`, with the conventions of Azure AI Evaluation, and `score()`.

`evaluate()` checks its arguments, makes an `Execution` and runs it. `_make_target` decides how rows are answered:

*   an endpoint: the driver that the data set names makes several requests for each row, for example a conversation.
    Without a driver, there is one request for each row.
*   a function: it is called with the columns of its parameters.
*   a `Target`: it gets whole rows.
*   None: the data holds the answers.

The data set may name target, evaluators and mapping. Arguments replace the first two, and entries of `evaluator_config`
replace those of the mapping. Names from the data load files only if the data is trusted (`_trust.py`).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import ParamSpec, TypeAlias, Unpack

from msgspec import structs
from msgspec.structs import replace

from tunecheck import plugins
from tunecheck._errors import ConfigurationError, PluginError
from tunecheck._messages import did_you_mean
from tunecheck._targets import Target, UserCalls
from tunecheck._trust import Trust
from tunecheck.datasets._reading import Data, Dataset, RepeatedDataset, open_dataset
from tunecheck.endpoints._base import Endpoint
from tunecheck.endpoints._definition import load_endpoint
from tunecheck.endpoints._target import EndpointTarget
from tunecheck.evaluation._ending import EvaluationResult, UnansweredError
from tunecheck.evaluation._execution import DEFAULT_CONCURRENCY, Execution
from tunecheck.evaluation._settings import EvaluateArguments, RunLike, RunSettings, ScoreArguments
from tunecheck.formats._reading import choose_profile
from tunecheck.pipeline._finished_rows import check_output_path, write_azure_results
from tunecheck.pipeline._mapping import bind_evaluator, configured_mapping, parse_mapping, path_in_data, read_layers
from tunecheck.pipeline._plan import CallableTarget
from tunecheck.pipeline._scoring import BoundEvaluator, MappingLayers
from tunecheck.pipeline._worker_queues import DEFAULT_TIMEOUT_S
from tunecheck.plugins import MakeUploader, UploaderLike
from tunecheck.runs._manifest import refuse_changed
from tunecheck.runs._store import Run, find_run

TargetLike: TypeAlias = "Target | Endpoint | Callable[..., object] | str | os.PathLike[str]"
"""A target, or its name: `load_endpoint` takes the name or the file of an endpoint's definition."""


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
        evaluation_name: the run's name; by default the data set's.
        target: a function, an Endpoint, a Target, or an endpoint's name or file; None if the data holds the answers.
        evaluator_config: `{"default": {"column_mapping": {…}}, "<evaluator>": {…}}`; `target` may have one, too.
        azure_ai_project: upload to this Foundry project (its endpoint) or hub project (a dict of its three names).
        output_path: a path to which Azure's results file is also written.
        fail_on_evaluator_errors: stop at an evaluator's first error.
        tags: texts by name, kept with the run.
        credential: credential for the upload, with a method `get_token`.
        allow_simulated: upload simulated answers, too; the upload is tagged as simulated.
        user_agent: a text appended to the user agent of calls.
        arguments: further settings; `RunSettings` describes them.

    Raises:
        ConfigurationError: An argument is wrong; the message says which one.
        UnansweredError: The target failed on every row.
        RunError, UploadError: The run was stopped, or finished but not uploaded; the message says how to continue.
    """
    _refuse_unknown(arguments, evaluate, EvaluateArguments)
    uploading = uploader_to(azure_ai_project, credential, user_agent, allow_simulated=allow_simulated)
    settings = RunSettings(
        **arguments,
        name=evaluation_name,
        tags=tags,
        fail_on_evaluator_errors=fail_on_evaluator_errors,
        allow_simulated=allow_simulated,
    )

    execution = _prepare(data, target, evaluators, evaluator_config, settings, user_agent)
    return run_execution(execution, uploading, output_path)


def prepare_run(
    *,
    data: Data,
    evaluators: Mapping[str, object],
    target: TargetLike | None,
    evaluator_config: Mapping[str, object] | None,
    evaluation_name: str | None,
    **arguments: Unpack[EvaluateArguments],
) -> Execution:
    """Check the arguments of an `evaluate()` and return the execution that would run them; nothing runs yet.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    settings = RunSettings(**arguments, name=evaluation_name)
    return _prepare(data, target, evaluators, evaluator_config, settings, user_agent=None)


_P = ParamSpec("_P")


def result_or_unanswered(run: Callable[_P, EvaluationResult], *args: _P.args, **kwargs: _P.kwargs) -> EvaluationResult:
    """Call `run` and return its result, also if it raises because the target failed on every row."""
    try:
        return run(*args, **kwargs)
    except UnansweredError as error:
        return error.result


def score(
    run: RunLike,
    *,
    evaluators: Mapping[str, object],
    evaluator_config: Mapping[str, object] | None = None,
    evaluation_name: str | None = None,
    **arguments: Unpack[ScoreArguments],
) -> EvaluationResult:
    """Judge a finished run's recorded answers with other evaluators, in a new run, without calls to the endpoint.

    Verdicts of unchanged evaluators are reused. The mapping is the old run's; entries of `evaluator_config` replace its
    entries. To finish a new run that was interrupted, pass it as `resume`. `RunSettings` describes the other arguments.

    Raises:
        ConfigurationError: The run does not exist, has not finished, or an argument is wrong.
        RunError: The run is damaged and `accept_damage` is False, or the new run was stopped.
    """
    from tunecheck.evaluation._rescoring import RecordedAnswers, RecordedRows, own_mapping

    _refuse_unknown(arguments, score, ScoreArguments)
    if arguments.get("reuse") is not None:
        raise ConfigurationError("score() always reuses unchanged verdicts of the run that it judges: leave reuse out")

    settings = RunSettings(**arguments)
    recorded = find_run(run, settings.folder)
    results, manifest = recorded.rows(), recorded.manifest()
    if not settings.accept_damage:
        refuse_changed(recorded, manifest)
    _check_names(evaluators)

    default = manifest.mapping.get("default", {})
    layers = read_layers(evaluator_config, evaluators, default, partial(own_mapping, manifest))
    target = RecordedAnswers(recorded, results, manifest.target) if manifest.target else None
    trust = settings.trust or Trust()
    bound = _bind_evaluators(evaluators, layers, evaluator_config, target, trust)

    rows = RecordedRows(results, manifest.dataset)
    set_trust(trust.of(recorded.manifest_file), rows, target, bound)

    # A resumed run has a parent already, the run that it judges.
    reuse = recorded.folder if settings.resume is None else None
    settings = replace(settings, name=evaluation_name or str(manifest.name), reuse=reuse)
    # The metrics of an early decision are those of other evaluators.
    decision = None if manifest.stopped is None else structs.replace(manifest.stopped, metrics=[])
    return Execution(rows, target, bound, layers, settings, inherited=decision).run()


# -- from arguments to a finished run


def _prepare(
    data: Data | None,
    target: TargetLike | None,
    evaluators: Mapping[str, object] | None,
    config: Mapping[str, object] | None,
    settings: RunSettings,
    user_agent: str | None,
) -> Execution:
    """Return the execution of an `evaluate()`: open the data, load the target and evaluators, and bind columns.

    The data set's own target, evaluators and mapping stand in for arguments that are None.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    if data is None:
        raise ConfigurationError("evaluate() needs data: a path, a list of dicts, a DataFrame or an iterable of dicts")

    dataset = open_dataset(data, limit=settings.limit, number_ids=settings.number_ids)
    if settings.repeat > 1:
        dataset = RepeatedDataset(dataset, settings.repeat)

    # Evaluators and target are loaded under the trust of their origin: the data set's files, or the caller's arguments.
    trust = settings.trust or Trust()
    data_trust = trust.of(*dataset.files[::-1])  # the sidecar, the last file, contains the names
    evaluator_trust = data_trust if evaluators is None else trust
    evaluators = {name: name for name in dataset.defaults.evaluators} if evaluators is None else evaluators

    _check_names(evaluators)
    # Only a check: unlike later errors, its errors name the file and the line.
    parse_mapping(dataset.defaults.column_mapping, dataset.defaults.place_of)
    layers = read_layers(config, evaluators, dataset.defaults.evaluator_mapping)

    # Without the caller's target, the data set names one, or has the answers (None).
    declared = dataset.defaults.target
    if target is None and is_driver(declared):
        raise ConfigurationError(f"{dataset.name}: target {declared!r} needs an endpoint: pass --endpoint or target=…")
    chosen = declared if target is None else target
    if isinstance(chosen, (str, os.PathLike)):
        chosen = load_endpoint(os.fspath(chosen), trust=data_trust if target is None else trust)
    run_target = _make_target(chosen, dataset, configured_mapping(config, "target"), settings, user_agent, data_trust)
    # If the mapping names the columns of `query` and `tool_definitions`, an endpoint reads them there, too.
    if isinstance(run_target, EndpointTarget):
        for part, parameter in (("messages", "query"), ("tools", "tool_definitions")):
            run_target.read_also(part, path_in_data(layers["default"], parameter))

    _apply_limits(run_target, settings)
    bound = _bind_evaluators(evaluators, layers, config, run_target, evaluator_trust)
    set_trust(trust.of(*dataset.files), dataset, run_target, bound)
    return Execution(dataset, run_target, bound, layers, settings)


def _apply_limits(target: Target | None, settings: RunSettings) -> None:
    """Apply the run's concurrency and time limit to a target and its endpoint.

    If the endpoint's own limit of concurrency is lower, that limit holds and a note of the target says so.
    """
    endpoint = getattr(target, "endpoint", None)
    if target is not None and isinstance(endpoint, Endpoint):
        wanted = settings.concurrency
        if wanted is not None:
            endpoint.allow(wanted)
            if endpoint.concurrency is not None and endpoint.concurrency < wanted:
                limit = f"at most {endpoint.concurrency} calls at once (limits.concurrency of the endpoint)"
                target.notes = [*target.notes, f"{limit}, not {wanted} as requested"]

    # The default does not replace the limit that a user's class sets itself.
    if settings.target_timeout != DEFAULT_TIMEOUT_S:
        for caller in (target, endpoint):
            if isinstance(caller, UserCalls):
                caller.limit_s = settings.target_timeout


def run_execution(
    execution: Execution, uploading: UploaderLike | None, output_path: str | os.PathLike[str] | None
) -> EvaluationResult:
    """Run, write Azure's file to `output_path` and upload the run; check before the run that the last two can work.

    Raises:
        UnansweredError: The target failed on every row.
        RunError, UploadError: The run was stopped, or finished but not uploaded; the message says how to continue.
    """
    path = None if output_path is None else check_output_path(output_path)
    if uploading is not None:
        uploading.check(simulated=execution.simulated)

    result = execution.run()
    run = Run(result.run_dir)

    def write(studio_url: str | None) -> None:
        if path is not None:
            with run.writing(path):
                write_azure_results(path, result.rows, result.metrics, studio_url)

    # The file is written before the upload, which may fail, and again with the address of the upload.
    write(None)
    if result.unanswered:
        raise UnansweredError(result)
    if uploading is not None:
        result["studio_url"] = url = uploading.upload(run).url
        write(url)
    return result


# -- checking arguments


def _refuse_unknown(arguments: Mapping[str, object], function: Callable[..., object], declared: type) -> None:
    """Refuse keyword arguments that `function` does not have; `declared` is the type of its further arguments.

    Raises:
        ConfigurationError: The first unknown argument, with the most similar known name.
    """
    # `**arguments` takes any name, so Python itself refuses no misspelled one.
    further = declared.__annotations__.keys()
    unknown = arguments.keys() - further
    if unknown:
        name = min(unknown)
        known = [*(own for own in inspect.signature(function).parameters if own != "arguments"), *further]
        raise ConfigurationError(f"{function.__name__}() has no argument {name!r}{did_you_mean(name, known)}")


def uploader_to(
    project: object, credential: object, user_agent: str | None, *, allow_simulated: bool
) -> UploaderLike | None:
    """Return the uploader of the results to a Foundry project; None without a project.

    Called before the run, so that wrong arguments are found before any call.

    Raises:
        ConfigurationError: A credential is given without a project, or the project is wrong.
    """
    if project is None:
        if credential is not None:
            raise ConfigurationError("`credential` is only for uploads to Azure AI: give `azure_ai_project`, too")
        return None

    make: MakeUploader = plugins.find("uploaders", "foundry")
    return make(project, credential=credential, allow_simulated=allow_simulated, user_agent=user_agent)


# -- the target

_TARGET_MAPPING = "--mapping target.… (evaluator_config['target'])"


def _make_target(
    target: Target | Endpoint | Callable[..., object] | None,
    dataset: Dataset,
    mapping: Mapping[str, object],
    settings: RunSettings,
    user_agent: str | None,
    trust: Trust,
) -> Target | None:
    """Return the target of a run: an endpoint for one request or several per row, or a function; None stays None.

    `mapping` is the column mapping of `target` in evaluator_config. Only functions, and endpoints with one request per
    row, accept a mapping.

    Raises:
        ConfigurationError: The target is of another kind, or an argument does not go with it.
    """
    is_driven = isinstance(target, Endpoint) and is_driver(dataset.defaults.target)
    if mapping and (is_driven or target is None or isinstance(target, Target)):
        kinds = "only a function, or an endpoint that gets one request for each row, takes a mapping"
        raise ConfigurationError(f"{kinds}: leave {_TARGET_MAPPING} out")

    if isinstance(target, Endpoint):
        if user_agent is not None:
            target.sign(user_agent)
        return _endpoint_target(target, dataset, mapping, trust)

    if user_agent is not None:
        raise ConfigurationError("user_agent is only for targets that are endpoints: leave user_agent out")

    if target is None or isinstance(target, Target):
        return target

    # A class is callable, too, but a call of it gives an instance instead of an answer.
    if not callable(target) or (isinstance(target, type) and issubclass(target, (Target, Endpoint))):
        kinds = "a function, or an instance of Endpoint or Target"
        raise ConfigurationError(f"target must be {kinds}, not {target!r:.60}")
    parsed = parse_mapping(mapping, _TARGET_MAPPING)
    return CallableTarget(target, parsed, settings.concurrency or DEFAULT_CONCURRENCY, settings.target_timeout)


def _endpoint_target(endpoint: Endpoint, dataset: Dataset, mapping: Mapping[str, object], trust: Trust) -> Target:
    """Return the target that sends rows to an endpoint: by the data set's driver, else with one request per row.

    Raises:
        ConfigurationError: The data set's parameters, or the mapping, do not go with the target.
        PluginError: The plug-in of the data set's target is missing or returns no Target.
    """
    driver, parameters = dataset.defaults.target, dataset.defaults.conversation
    if driver is not None and is_driver(driver):
        # The data's `format` may name a file of the workspace, if the data is trusted.
        if isinstance(parameters.get("format"), str):
            choose_profile(str(parameters["format"]), trust=trust)
        make = plugins.find(_TARGETS, driver)
        target = make(endpoint, **parameters) if callable(make) else None
        if not isinstance(target, Target):
            problem = "must be a function that takes an endpoint and returns a Target"
            raise PluginError(f"the plug-in of target {driver!r} {problem}")
        return target

    if parameters:
        name = next(iter(parameters))
        keys = f"--{name.replace('_', '-')}, or the key `{name}` of the data's YAML file"
        raise ConfigurationError(f"{dataset.name}: `{name}` is only for conversations: leave out {keys}")

    columns = dataset.defaults.target_mapping | {name: str(value) for name, value in mapping.items()}
    # A place is a file and line for errors; an entry of the caller's mapping has none.
    places = {name: place for name, place in dataset.defaults.target_places.items() if name not in mapping}
    return EndpointTarget(endpoint, columns, places)


# -- the evaluators


def _bind_evaluators(
    evaluators: Mapping[str, object],
    layers: MappingLayers,
    config: Mapping[str, object] | None,
    target: Target | None,
    trust: Trust,
) -> list[BoundEvaluator]:
    """Return the evaluators ready to run: found by name if they are texts, and bound to their columns.

    Raises:
        ConfigurationError: An evaluator does not exist, cannot be called, or lacks a parameter that `config` maps.
    """
    all_bound = []
    columns = frozenset[str]() if target is None else target.columns
    profile = getattr(getattr(target, "endpoint", None), "profile", None)

    for name, evaluator in evaluators.items():
        loaded = plugins.find("evaluators", evaluator, trust=trust) if isinstance(evaluator, str) else evaluator
        # An evaluator reads calls in the format that the target's endpoint declares, if both have one.
        if profile is not None and hasattr(loaded, "in_format"):
            loaded = (loaded() if isinstance(loaded, type) else loaded).in_format(profile)
        bound = bind_evaluator(name, loaded, layers[name], columns)

        # Only the evaluator's own mapping must fit it. The mapping of `default` may name parameters of others.
        known = {parameter for choice in bound.signature.choices for parameter in choice}
        unknown = [parameter for parameter in configured_mapping(config, name) if parameter not in known]
        if unknown and not bound.signature.takes_any:
            hint = did_you_mean(unknown[0], known)
            raise ConfigurationError(f"mapping of evaluator {name!r}: there is no parameter {unknown[0]!r}{hint}")
        all_bound.append(bound)
    return all_bound


def _check_names(evaluators: object) -> None:
    """Check that evaluators are given by name and that their result columns can be told apart.

    Raises:
        ConfigurationError: There is no evaluator, or a name is empty, reserved, or the prefix of another.
    """
    if not isinstance(evaluators, Mapping) or not evaluators:
        raise ConfigurationError(f"evaluators must be a non-empty dict of evaluators by name, not {evaluators!r:.60}")

    for name in evaluators:
        if not isinstance(name, str) or not name.strip() or name in ("target", "default", "results", "cause"):
            advice = "choose a non-blank text other than target, default, results and cause"
            raise ConfigurationError(f"{name!r} cannot be the name of an evaluator: {advice}")

    # `f1` and `f1.x` would both have a key `outputs.f1.x`.
    for name in evaluators:
        longer = next((other for other in evaluators if other.startswith(f"{name}.")), None)
        if longer is not None:
            names = f"{name!r} and {longer!r}"
            raise ConfigurationError(f"evaluators {names} would share result columns: rename one of them")


# -- drivers: targets that make several requests to an endpoint for each row

_TARGETS = "targets"
"""The kind of plug-ins that are drivers."""


def is_driver(name: str | None) -> bool:
    """Return True if a data set's target is a driver, which makes several requests for each row, not an endpoint.

    For example, the driver `conversation` sends each turn of a row and the results of the calls.
    """
    return name is not None and any(plugin.name == name for plugin in plugins.discover(_TARGETS))


def set_trust(trust: Trust, dataset: Dataset, target: Target | None, evaluators: Iterable[BoundEvaluator]) -> None:
    """Pass the trust in the rows to the target and the evaluators that load simulators by names in the rows.

    Raises:
        ConfigurationError: The first row names a simulator that is not trusted.
    """
    candidates: list[object] = [target, *(evaluator.function for evaluator in evaluators)]
    setters = [candidate.set_trust for candidate in candidates if hasattr(candidate, "set_trust")]
    for set_one in setters:
        set_one(trust)

    if setters and trust.named_by is not None:  # one error before any call, instead of one in every row
        first = next(dataset.rows(), None)
        # This column names a row's simulators.
        names = None if first is None else first.values.get("involved_classes")
        for plugin in plugins.discover("simulators"):
            if isinstance(names, list) and plugin.name in names:
                plugins.check(plugin, trust)
