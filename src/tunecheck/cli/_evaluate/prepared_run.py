"""Prepares and does one run of `evaluate` or `score`: completes the options, checks them, and applies the gates.

A command goes through these steps. All of them come before the first call, and each may end the command:

1. `complete_options`: add the options of `--config`, then those of the run of `--resume` or `--reuse`
2. `each_endpoint`: one run for each endpoint of `--endpoint a,b`
3. `prepare`: read the gates, open the data, choose the source of the answers, make the evaluators, check the gates
4. `PreparedRun.run`: start the run

**The source of the answers** (`choose_source`) is the first of these:

| source | example |
|---|---|
| the column that the command names | `--response-column answer_v7` |
| the data's column that `response` is mapped to, if the data names no target | `--mapping 'response=${data.answer}'` |
| the endpoint that the command names | `--endpoint my-endpoint` |
| the endpoint that the data names | `target: my-endpoint` in `val.yaml` |
| the simulated endpoint: the workspace's, else the built-in one | |

A `score` takes the recorded answers of a run instead.

**The evaluators** of `evaluate` are those of `--evaluators`, else the data's, else the default ones; those of `score`
are named by `--evaluators`, else those of the scored run, with its `--set`, `--mapping`, `--names`, judge and prices.

With `--on`, tasks compute the rows elsewhere and rebuild the execution there from the command's options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import msgspec
from msgspec import structs

from tunecheck import evaluation, plugins, results
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck._trust import Trust
from tunecheck.cli import _running as running
from tunecheck.cli._console import check_output
from tunecheck.cli._evaluate import evaluator_choice
from tunecheck.cli._evaluate.options import Options
from tunecheck.cli._gates import Gate, check_base, parse_gate
from tunecheck.cli._options import Invocation, completed, parse_names
from tunecheck.cli._shared_options import ModelOptions
from tunecheck.datasets._reading import Dataset, described_dataset, open_dataset
from tunecheck.endpoints._base import Endpoint, Prices, read_prices
from tunecheck.pipeline._mapping import read_reference
from tunecheck.runs._store import Run, command_of, find_run, is_remote

if TYPE_CHECKING:
    from tunecheck.cli._baseline import Base
    from tunecheck.evaluation._ending import EvaluationResult

# -- runs whose rows other machines compute

_DRIVER_ONLY = (
    "on", "repeat", "limit", "resume", "reuse", "junit", "markdown", "no_worse_than", "better_than", "config",
)  # fmt: skip
"""Options that only the driver uses: the process that starts the run. Tasks get them without a value."""


def _execution_of_task(
    options: Options, describe_data: Callable[[], Dataset], allowed: tuple[Path, ...]
) -> evaluation.Execution:
    """Make the execution of a run's task from the command's options, which hold no secrets.

    `describe_data` makes a data set without rows, because tasks get rows instead of the file. `allowed` are the paths
    of --trust.

    Raises:
        TunecheckError: something that the options name is missing on this machine.
    """
    return _prepare_evaluate(options, describe_data(), (), Trust(allowed=allowed)).execution()


def _runs_elsewhere(options: Options, dataset: Dataset, trust: Trust) -> evaluation.RunsElsewhere | None:
    """Return the starter of runs on other machines that `--on` names; None without `--on`.

    It gets a recipe with which tasks rebuild the execution from these options.

    Raises:
        ConfigurationError: there is no such runner.
    """
    if options.on is None:
        return None
    name, colon, address = options.on.partition(":")

    open_runner = plugins.find("runners", name)

    values: dict[str, Any] = {field.name: getattr(options, field.name) for field in fields(completed(Options))}
    task_options = Options(**{**values, **dict.fromkeys(_DRIVER_ONLY), "quiet": True})

    path = None if dataset.path is None else dataset.path.resolve()
    if path is not None and trust.in_workspace(path):
        # Another machine may have the workspace in another folder.
        path = path.relative_to(trust.workspace)

    describe_data = partial(described_dataset, tuple(dataset.scan().columns), dataset.defaults, dataset.name, path)
    recipe = partial(_execution_of_task, task_options, describe_data, trust.allowed)  # can be pickled

    return cast("evaluation.RunsElsewhere", open_runner(address if colon else None, options, recipe))


# -- a prepared run

R = TypeVar("R")

_SCORING_OPTIONS = ("workers", "evaluator_timeout", "group_by", "cluster", "primary", "calls")
"""Options that are arguments of `evaluate()` and `score()` under the same name."""


class PreparedRun(msgspec.Struct, frozen=True):
    """A prepared run.

    `source` has the rows: a data set, or a run whose recorded answers are judged. `endpoint` is None if the run calls
    none. `label` names the source of the answers for users. `simulated`: the answers come from no real model.

    `evaluators` are objects by name. `config` has their column mappings by evaluator or `default`. `gates` are those of
    `--fail-under`, and `base` is the run of `--no-worse-than` or `--better-than`, if any.
    """

    options: Options
    source: Dataset | Run
    endpoint: Endpoint | None
    label: str
    evaluators: Mapping[str, object]
    config: Mapping[str, Mapping[str, JSON]]
    gates: tuple[Gate, ...]
    simulated: bool
    trust: Trust
    base: Base | None = None

    @property
    def is_gated(self) -> bool:
        """Return True if a gate affects the exit code."""
        return bool(self.gates) or self.options.max_error_rate is not None or self.options.against is not None

    def remarks(self) -> list[str]:
        """Return remarks about options without effect and other surprises."""
        columns = self.source.scan().columns if isinstance(self.source, Dataset) else ()
        remarks = []

        if self.simulated and self.options.endpoint is None and "response" in columns:
            remarks.append("the data has a column 'response': to score its answers, add --response-column response")
        if self.options.judge is not None and not any(map(evaluator_choice.asks_models, self.evaluators.values())):
            remarks.append("--judge has no effect, because no evaluator calls a model")
        return remarks

    def run(self) -> EvaluationResult:
        """Run the evaluation or the scoring and return its result, also if every row failed."""
        from tunecheck.evaluation._evaluate import evaluate, score

        options = self.options
        if isinstance(self.source, Run):
            return self._start(partial(score, self.source.folder, evaluation_name=options.name), self.label)

        on = _runs_elsewhere(options, self.source, self.trust)
        arguments = {"reuse": options.reuse, "on": on, **self._until_decided()}
        return self._start_on_data(partial(evaluation.result_or_unanswered, evaluate, **arguments))

    def execution(self) -> evaluation.Execution:
        """Return the prepared execution of a run on a data set."""
        return self._start_on_data(evaluation.prepare_run)

    def _start_on_data(self, run: Callable[..., R]) -> R:
        """Call `run` with the data, the target, the run's name, the number of trials and all settings.

        Without `--name`, a run of the data `val` and the endpoint `my-endpoint` is called `val-my-endpoint`.
        """
        options, data = self.options, self.source
        assert isinstance(data, Dataset)
        name = options.name or (f"{data.name}-{options.endpoint_name}" if options.endpoint else None)
        on_data = partial(run, data=data, target=self.endpoint, repeat=options.repeat or 1, evaluation_name=name)
        return self._start(on_data, data.name)

    def _start(self, run: Callable[..., R], title: str) -> R:
        """Call `run` with the evaluators and settings of this run; the progress bar shows `title`."""
        given = {name: value for name, value in self.options.given().items() if name in _SCORING_OPTIONS}
        shared = running.run_arguments(self.options, title, max_cost=self.options.max_cost, trust=self.trust)
        return run(evaluators=self.evaluators, evaluator_config=self.config, **given, **shared)

    def _until_decided(self) -> dict[str, Any]:
        """Return the arguments for a run that stops once its gate is decided; empty for other runs."""
        base = self.base
        if base is None or not self.options.until_decided:
            return {}

        against = {"better_than": base.name} if base.better else {"no_worse_than": base.name, "margin": base.margin}
        return {
            **against,
            "allow_simulated": base.settings.allow_simulated,
            "until_decided": True,
            "decide_on": base.settings.metrics,
            "confidence": base.settings.confidence,
            "seed": self.options.seed or 0,
        }


def complete_options(given: Options, trust: Trust, invocation: Invocation) -> Options:
    """Return the `given` options, completed from the configuration file and from the resumed or reused run.

    Raises:
        ConfigurationError: there is no data, or options contradict each other.
        UntrustedError: the file or run sets options that need the user's consent.
    """
    options = given if given.config is None else running.options_of_file(given, given.config, trust, invocation)
    # The mirror of the storage was opened before the file was read, for the command's own --results-dir.
    if is_remote(options.results_dir or "") and options.results_dir != given.results_dir:
        advice = "give az://… with --results-dir in the command"
        raise ConfigurationError(f"{given.config}: `results_dir` in an options file must be a local folder: {advice}")

    if options.resume is not None and options.reuse is not None:
        raise ConfigurationError("--resume finishes a run, but --reuse starts a new run: give only one of them")

    if options.resume is not None:
        run = find_run(options.resume, options.folder)
        options = running.merge_resumed_options(options, running.options_of_run(options, run, trust, invocation), run)
    elif options.reuse is not None:
        options = _reuse_options(options, options.reuse, trust, invocation)

    if options.all:
        if options.resume is None:
            raise ConfigurationError("--all needs --resume RUN: name a run that --until-decided stopped early")
        options = replace(options, until_decided=False)

    if options.until_decided and options.run is not None:
        raise ConfigurationError("`score` calls no endpoint, so --until-decided has no effect: leave the option out")
    if options.dataset is None and options.run is None:
        raise ConfigurationError("there are no rows to evaluate: give --dataset FILE, --resume RUN or --reuse RUN")
    return options


def _reuse_options(options: Options, name: str, trust: Trust, invocation: Invocation) -> Options:
    """Return the options completed from those of the run of `evaluate` that `--reuse` names.

    Raises:
        ConfigurationError: Python or another command started the run.
    """
    run = find_run(name, options.folder)
    command = run.manifest().command or {}
    if not command or "run" in command:  # `score` records the scored run under this name
        advice = f"judge its answers with `tunecheck score {run.id}`"
        raise ConfigurationError(f"--reuse: run {run.id} was started in Python or by `score`: {advice}")

    recorded = running.options_of_run(options, run, trust, invocation)
    return replace(options.over(recorded), reuse=str(run.folder))


def each_endpoint(options: Options) -> list[Options]:
    """Return the options of each run: one run per endpoint in the comma-separated list, in order.

    The path of an existing file is one endpoint, even if it has a comma.

    Raises:
        ConfigurationError: several endpoints are given with an option for only one run.
    """
    given = options.endpoint
    if given is None or "," not in given or Path(given).exists():
        return [options]

    for name in ("resume", "response_column", "junit", "markdown"):
        if getattr(options, name) is not None:
            raise ConfigurationError(f"--{name.replace('_', '-')} works with one endpoint only: name one endpoint")

    # `--name nightly` becomes `nightly-iteration-6` and `nightly-iteration-7`; without --name, the name stays None.
    runs = [replace(options, endpoint=name) for name in parse_names(given, "--endpoint")]
    return [replace(run, name=run.name and f"{run.name}-{run.endpoint_name}") for run in runs]


def prepare(options: Options, trust: Trust, invocation: Invocation) -> PreparedRun:
    """Create everything that the options name, check that it fits together, and return the run, ready to start.

    Raises:
        ConfigurationError: something does not exist or does not fit; nothing has been called or written.
    """
    gates = tuple(parse_gate(text) for text in options.fail_under or ())

    # A gate such as `match[language=de]>=0.8` needs the metrics of each language.
    grouping = [gate.slice[0] for gate in gates if gate.slice is not None and gate.slice[0] != "row_kind"]
    if grouping:
        options = replace(options, group_by=list(dict.fromkeys([*(options.group_by or ()), *grouping])))

    check_base(options)
    check_output("--junit", options.junit)
    check_output("--markdown", options.markdown)
    if options.on is not None and not options.on.partition(":")[0].isidentifier():
        raise ConfigurationError(f"--on {options.on!r} is not a runner: write --on ray or --on ray:ADDRESS")

    if options.run is None:
        assert options.dataset is not None
        dataset = open_dataset(options.dataset, limit=options.limit, number_ids=options.number_ids)
        prepared = _prepare_evaluate(options, dataset, gates, trust)
    else:
        prepared = _prepare_score(options, gates, trust, invocation)

    for gate in gates:
        gate.check_names(list(prepared.evaluators))
        gate.check_scale(prepared.evaluators)

    if prepared.is_gated and prepared.simulated:
        require_allow_simulated(options)
    return prepared if options.against is None else _with_base(prepared)


def _with_base(prepared: PreparedRun) -> PreparedRun:
    """Return the prepared run with the base run of its gate, read and paired with these rows."""
    from tunecheck.cli._baseline import read_base  # heavy, and most runs have no such gate

    options, source = prepared.options, prepared.source
    if isinstance(source, Dataset):
        layers = [source.defaults.column_mapping, *(layer["column_mapping"] for layer in prepared.config.values())]
        # Only recorded answers are in columns that a mapping names.
        mapping = [layer for layer in layers if isinstance(layer, Mapping)] if prepared.endpoint is None else None
        rows: results.AboutToRun | Run = results.AboutToRun(source, mapping, options.cluster, options.primary)
    else:
        rows = source

    base = read_base(options, prepared.gates, prepared.evaluators, rows)
    # `--resume` must find the same base again, so the option gets a name that lasts, unlike `last`.
    options = replace(options, better_than=base.name) if base.better else replace(options, no_worse_than=base.name)
    return msgspec.structs.replace(prepared, base=base, options=options)


def require_allow_simulated(options: Options) -> None:
    """Refuse gates on simulated answers unless `--allow-simulated` is given.

    Raises:
        ConfigurationError: the option is missing.
    """
    if not options.allow_simulated:
        advice = "give --endpoint, or --allow-simulated to try the gate out"
        raise ConfigurationError(f"the answers are simulated, so a gate on them says nothing about a model: {advice}")


def _prepare_evaluate(options: Options, dataset: Dataset, gates: tuple[Gate, ...], trust: Trust) -> PreparedRun:
    """Prepare a run that sends a data set's rows to the chosen source of answers."""
    dataset, endpoint, label = choose_source(options, dataset, trust)
    if endpoint is None and (options.repeat or 1) > 1:
        raise ConfigurationError(f"--repeat has no effect, because {label} calls no endpoint: leave --repeat out")

    # The data's evaluators are trusted only as far as its files. Errors name the first file: the sidecar, here.
    names = options.evaluators or dataset.defaults.evaluators or list(evaluator_choice.DEFAULT_EVALUATORS)
    evaluators = _evaluators(options, names, trust, trust if options.evaluators else trust.of(*dataset.files[::-1]))

    _prices(options).give(endpoint)
    simulated = endpoint is not None and endpoint.simulated
    return PreparedRun(options, dataset, endpoint, label, evaluators, _config(options, names), gates, simulated, trust)


def _prepare_score(options: Options, gates: tuple[Gate, ...], trust: Trust, invocation: Invocation) -> PreparedRun:
    """Prepare a run that judges the recorded answers of a run.

    If the options name no evaluators, those of the run are used, with their settings, mapping and judge.

    Raises:
        ConfigurationError: the options name another source of answers; or they name no evaluators, and `evaluate` did
            not start the run.
    """
    assert options.run is not None
    if options.endpoint is not None or options.response_column is not None:
        raise ConfigurationError("`score` judges recorded answers: leave --endpoint and --response-column out")
    run = find_run(options.run, options.folder)
    manifest, names = run.manifest(), options.evaluators

    if names is None:
        names = list(manifest.evaluators)
        if command_of(manifest.command) != Options.command:
            advice = f"name its evaluators, or others, such as --evaluators {','.join(names)}"
            raise ConfigurationError(f"run {run.id} was not started by `tunecheck evaluate`: {advice}")
        inherited = ("set", "names", "mapping", "judge", "prices")
        recorded = running.options_of_run(options, run, trust, invocation, among=inherited)
        options = options.over(replace(recorded, evaluators=names))

    options = replace(options, run=running.lasting_name(run.folder, options.folder))
    evaluators = _evaluators(options, names, trust, trust)
    label, config = f"recorded answers of {run.id}", _config(options, names)
    return PreparedRun(options, run, None, label, evaluators, config, gates, manifest.simulated, trust)


def _prices(options: ModelOptions) -> Prices:
    """Return the prices in the file of `--prices`; none without it."""
    return Prices({}) if options.prices is None else read_prices(Path(options.prices))


def _evaluators(options: Options, names: Sequence[str], trust: Trust, names_trust: Trust) -> dict[str, object]:
    """Return the evaluators with these names, made with `--set`, `--names`, the judge and the prices.

    `names_trust` is the trust in the source of the names.
    """
    dots = {} if options.names is None else {"call_check.names": options.names}
    return chosen_evaluators(options, names, {**dots, **(options.set or {})}, trust, names_trust)


def chosen_evaluators(
    options: ModelOptions, names: Sequence[str], settings: Mapping[str, JSON], trust: Trust, names_trust: Trust
) -> dict[str, object]:
    """Return evaluators by name, made with their settings, the model of `--judge` and the prices of `--prices`.

    `names_trust` is the trust in the source of the names, `trust` that of the command.
    """
    judge = None if options.judge is None else running.load_named(options.judge, trust)
    own_settings = evaluator_choice.settings_by_evaluator(settings, names)
    evaluators = evaluator_choice.make_evaluators(names, own_settings, judge, names_trust)

    prices = _prices(options)
    for evaluator in evaluators.values():
        prices.give(getattr(evaluator, "endpoint", None))

    return evaluators


def _config(options: Options, names: list[str]) -> dict[str, dict[str, JSON]]:
    """Return the evaluator configuration of `--mapping`.

    For example `{"default": {"column_mapping": {"response": "${data.answer}"}}}`.
    """
    layers = evaluator_choice.mapping_layers(options.mapping or {}, names)
    return {name: {"column_mapping": dict(entries)} for name, entries in layers.items()}


# -- the source of the answers


_OF_CONVERSATIONS = {"turns", "involved_classes"}
"""Columns that only conversations with simulators have."""


AnswerSource: TypeAlias = "tuple[Dataset, Endpoint | None, str]"
"""The data, the endpoint that answers (None if a column has the answers), and the source's name for users."""


def choose_source(options: Options, dataset: Dataset, trust: Trust) -> AnswerSource:
    """Return the source of answers: a column that an option or the mapping names, else an endpoint.

    The endpoint is that of the command, else of the data, else the simulated one. With `--response-column`, the
    returned data set maps `response` to the column and declares no target. With an endpoint, it has the command's
    settings of conversations; if its rows are conversations without a target, it gets the target `conversation` and,
    without evaluators, `multi_turn_state`.

    Raises:
        ConfigurationError: the options name two sources, or no such column or endpoint exists.
    """
    if options.response_column is not None:
        return _column(options, dataset, options.response_column)

    # A text `${data.answer.text}` names a column of the data; `${target.response}` does not.
    response = (options.mapping or {}).get("response", dataset.defaults.column_mapping.get("response"))
    reference = read_reference(str(response).strip())

    if dataset.defaults.target is None and reference is not None and reference.source == "data":
        if options.endpoint is not None:
            advice = "leave --endpoint out, or score its answers with --mapping response='${target.response}'"
            raise ConfigurationError(f"--endpoint has no effect, because `response` is mapped to {response}: {advice}")
        return dataset, None, f"column {'.'.join(map(str, reference.steps))}"

    # A driver, such as `conversation`, is no endpoint: it asks one.
    named = options.endpoint or (None if evaluation.is_driver(dataset.defaults.target) else dataset.defaults.target)
    if options.endpoint is None:
        trust = trust.of(*(dataset.files[::-1] if named else [running.WORKSPACE_SIMULATED]))

    endpoint = running.load_named(named or running.SIMULATED, trust, options.seed)
    is_embedded = named is None and running.is_embedded(running.SIMULATED)
    label = "the embedded simulated endpoint" if is_embedded else f"endpoint {endpoint.name}"

    defaults = structs.replace(dataset.defaults, **options.conversation)
    dataset = dataset.with_defaults(defaults)
    if defaults.target is None and dataset.scan().columns >= _OF_CONVERSATIONS:
        evaluators = defaults.evaluators or ["multi_turn_state"]
        dataset = dataset.with_defaults(structs.replace(defaults, target="conversation", evaluators=evaluators))

    return dataset, endpoint, label


def _column(options: Options, dataset: Dataset, column: str) -> AnswerSource:
    """Return the source for answers in a column of the data.

    Raises:
        ConfigurationError: there is no such column, or another option names a source, too.
    """
    if options.endpoint is not None:
        raise ConfigurationError("--endpoint and --response-column exclude each other: give only one of them")
    if "response" in (options.mapping or {}):
        raise ConfigurationError("--response-column and --mapping response=… exclude each other: give only one of them")

    columns = dataset.scan().columns
    if column not in columns:
        raise ConfigurationError(f"--response-column: the data has no column {column!r}{did_you_mean(column, columns)}")
    # The quoted form also names columns with dots or blanks: `${data['answer v7']}`.
    quote = '"' if "'" in column else "'"
    mapping = {**dataset.defaults.column_mapping, "response": f"${{data[{quote}{column}{quote}]}}"}
    defaults = structs.replace(dataset.defaults, target=None, column_mapping=mapping)
    return dataset.with_defaults(defaults), None, f"column {column}"
