"""Before the first row: column mappings are read and checked, and evaluators are bound to their columns.

Later layers of a mapping override earlier ones: the data set's mapping, then `default`, then the evaluator's own. A
parameter without a mapping takes the target's column of its name, else the data's top-level column. There are no other
guesses.

A mapping for all evaluators and one for `judge`, as `evaluator_config` has them:

    {"default": {"query": "${data.question}"}, "judge": {"context": "${data.docs[0].text}", "threshold": 4}}

A text with `${…}` is a reference, any other value is a constant. `judge` gets all three parameters, the other
evaluators only `query`. The target gets none of `default`.
"""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Callable, Iterable, Mapping

from msgspec import ValidationError, convert

from tunecheck._errors import ConfigurationError
from tunecheck._files import MetricEntry
from tunecheck._fingerprints import fingerprint
from tunecheck._json import ValuePath, parse_path, plain, text_or_none
from tunecheck._messages import did_you_mean
from tunecheck.pipeline._scoring import Binder, BoundEvaluator, Constant, Mapped, MappingLayers, Reference, Signature

# -- reading mappings


def parse_mapping(mapping: Mapping[str, object], where: str | Callable[[str], str]) -> dict[str, Mapped]:
    """Parse one layer of a mapping.

    `where` tells errors where the layer stands, or is a function that tells it for a parameter's name.

    Raises:
        ConfigurationError: a value looks like a reference but is not valid, or has no JSON form; the text names the
        parameter.
    """
    place = where if callable(where) else lambda name: where
    return {name: _parse_value(value, f"{place(name)}, parameter {name!r}") for name, value in mapping.items()}


def _parse_value(value: object, parameter: str) -> Mapped:
    """Return one value of a mapping: a Reference for a text with `${…}`, else a Constant.

    `parameter` names the mapping and the parameter in errors.

    A text such as `data.question` is a mistake: the `${}` are missing.

    Raises:
        ConfigurationError: a text looks like a reference but is not valid, or another value has no JSON form.
    """
    if not isinstance(value, str) or "${" not in value:
        if isinstance(value, str) and value.startswith(("data.", "target.")):
            shown = value[:200]
            raise ConfigurationError(f"{parameter}: {shown!r} is a fixed text, not a column: write '${{{shown}}}'")

        try:
            return Constant(plain(value))
        except TypeError as error:
            raise ConfigurationError(f"{parameter}: the value is neither a reference nor JSON: {error}") from None

    reference = read_reference(value.strip())
    if reference is not None:
        return reference

    forms = "${data.column}, ${data.a.b[0]}, ${data['a column']} or ${target.response}"
    raise ConfigurationError(f"{parameter}: {value[:200]!r} is not a reference: write {forms}")


def read_reference(text: str) -> Reference | None:
    """Return the reference that `${data.…}` or `${target.…}` writes; None for any other text.

    For example, `${data.docs[0].text}` has the steps `docs`, 0 and `text` in the data.
    """
    if not (text.startswith("${") and text.endswith("}")):
        return None

    try:
        path = parse_path(text[2:-1])
    except ValueError:
        return None

    if len(path) < 2 or path[0] not in ("data", "target"):
        return None
    return Reference("data" if path[0] == "data" else "target", path[1:], text)


def read_layers(
    config: Mapping[str, object] | None,
    evaluators: Iterable[str],
    declared: Mapping[str, object],
    declared_for: Callable[[str], Mapping[str, object]] = lambda name: {},
) -> MappingLayers:
    """Return the merged mapping of each evaluator, of `default`, and of `target`, which has only its own layer.

    `config` is Azure's `evaluator_config`: `{"default": {"column_mapping": {…}}}`, or the older `{"default": {…}}`.
    `declared` is the data set's mapping for all evaluators, `declared_for` returns its mapping for one evaluator.

    Raises:
        ConfigurationError: the configuration names an unknown evaluator, or a value is not a reference.
    """
    names = [*evaluators, "target"]
    if not isinstance(config, (Mapping, type(None))):
        raise ConfigurationError(f"evaluator_config must be a dict of evaluators, not of type {type(config).__name__}")

    configured = {str(name): configured_mapping(config, name) for name in config or {}}
    known = [*names, "default"]
    for name in configured:
        if name not in known:
            raise ConfigurationError(f"evaluator_config names an unknown evaluator {name!r}{did_you_mean(name, known)}")

    base = parse_mapping(declared, "the data set's column_mapping")
    base |= parse_mapping(configured.get("default", {}), "--mapping (evaluator_config['default'])")

    layers = {
        name: parse_mapping(declared_for(name), "the data set's column_mapping")
        | parse_mapping(configured.get(name, {}), f"--mapping {name}.… (evaluator_config[{name!r}])")
        for name in names
    }

    # The default layer is for evaluators only; the target uses its own mapping or columns of the same name.
    return {name: layer if name == "target" else base | layer for name, layer in layers.items()} | {"default": base}


def path_in_data(layer: Mapping[str, Mapped], parameter: str) -> ValuePath | None:
    """Return the path in the data to which a layer maps a parameter; None if the layer maps it to no data."""
    entry = layer.get(parameter)
    return entry.steps if isinstance(entry, Reference) and entry.source == "data" else None


def configured_mapping(config: Mapping[str, object] | None, name: str) -> Mapping[str, object]:
    """Return the column mapping of an evaluator, `default` or `target` in `evaluator_config`; empty without one.

    An entry is the mapping itself, or has it under `column_mapping`.

    Raises:
        ConfigurationError: the entry has another form.
    """
    entry = (config or {}).get(name, {})
    mapping, others = entry, set[str]()
    if isinstance(entry, Mapping) and "column_mapping" in entry:
        mapping, others = entry["column_mapping"], {*entry} - {"column_mapping"}
    if others or not isinstance(mapping, (Mapping, type(None))):
        form = "must be a dict of columns by parameter, or {'column_mapping': that dict} without other keys"
        raise ConfigurationError(f"evaluator_config[{name!r}] {form}")
    return mapping or {}


# -- binding and checking parameters


def make_binder(
    signature: Signature, mapping: Mapping[str, Mapped], owner: str, *, only_mapped: bool = False
) -> Binder:
    """Return the binder that builds the arguments of an evaluator or of the target for each row.

    `owner` names the evaluator or target in errors, for example `evaluator 'judge'`. A callable with `**kwargs` gets
    every column. With `only_mapped`, `**kwargs` and optional parameters get a column of the data only by the mapping.
    """
    if signature.takes_any:
        # `**kwargs` also takes mapped names that are no parameters: as optional ones (False).
        choices = [{**given, **{name: False for name in mapping if name not in given}} for given in signature.choices]
        signature = Signature(choices, takes_any=True)
    own = {name: mapped for name, mapped in mapping.items() if name in signature}
    return Binder(signature, own, only_mapped, owner)


def check_binding(binder: Binder, columns: frozenset[str], target_columns: frozenset[str] | None) -> None:
    """Check before the first row that the columns can supply every required parameter.

    `columns` are those of the data. `target_columns` are empty without a target, and None if they are unknown before a
    call; then only the mapping's names are checked.

    Raises:
        ConfigurationError: a mapping names an unknown column, the name of a column stands as a constant text, or a
        required parameter has no column.
    """
    owner, choices = binder.owner, binder.signature.choices
    for name, mapped in binder.mapping.items():
        parameter = f"{owner}, parameter {name!r}"
        if isinstance(mapped, Reference):
            _check_reference(mapped, parameter, columns, target_columns)
        elif isinstance(mapped.value, str) and mapped.value in columns:
            advice = f"write '${{data.{mapped.value}}}'"
            raise ConfigurationError(f"{parameter}: {mapped.value!r} is a fixed text, not a column: {advice}")

    if target_columns is None:
        return  # the columns of a function's answer are known only after a call

    # Each choice is a parameter list, and maps a name to True if the parameter is required.
    supplied = binder.mapping.keys() | columns | target_columns
    missing_by_choice = [[name for name in choice if choice[name] and name not in supplied] for choice in choices]
    if not all(missing_by_choice):  # one parameter list lacks nothing
        return

    # With overloads, the message names the columns that the first parameter list lacks.
    missing = missing_by_choice[0]
    known = ", ".join(f"${{data.{column}}}" for column in sorted(columns)[:12]) or "no columns"
    option = f"--mapping {missing[0]}='${{data.COLUMN}}' (in Python: column_mapping in evaluator_config)"
    raise ConfigurationError(f"{owner} needs {', '.join(map(repr, missing))}: give {option}; the data has {known}")


def _check_reference(
    mapped: Reference, parameter: str, columns: frozenset[str], target_columns: frozenset[str] | None
) -> None:
    """Check that the column of a reference exists; `parameter` names the owner and the parameter in errors.

    `columns` are those of the data. `target_columns` are empty without a target, and None if they are unknown; then
    columns of the target are not checked.

    Raises:
        ConfigurationError: there is no such column, or the reference needs a target and the run has none.
    """
    if mapped.source == "target" and target_columns == frozenset():
        raise ConfigurationError(f"{parameter}: {mapped.text} needs a target, but this run has none: use ${{data.…}}")

    known = columns if mapped.source == "data" else target_columns
    if known is None:
        return

    # A column's name may contain dots: for `${data.a.b[0]}`, `accumulate` yields the columns `a` and `a.b`.
    names = [str(step) for step in itertools.takewhile(lambda step: isinstance(step, str), mapped.steps)]
    column = str(mapped.steps[0])
    if known.isdisjoint(itertools.accumulate(names, "{}.{}".format)):
        problem = f"{mapped.text} names no column: there is no {column!r}"
        raise ConfigurationError(f"{parameter}: {problem}{did_you_mean(column, known)}")


# -- reading signatures


def read_signature(function: Callable[..., object], owner: str) -> Signature:
    """Return the signature of a function or of an instance's `__call__`.

    `owner` names the evaluator or target in errors, for example `evaluator 'judge'`. A function with overloads has one
    choice of parameters for each overload.

    Raises:
        ConfigurationError: a required parameter is positional-only, or the parameters cannot be determined.
    """
    overloads = _declared_signatures(function) or _overloads(function)
    if overloads:
        # Overloads list every parameter that they take: `**kwargs` in one of them admits no other.
        return Signature([_parameters(overload, owner)[0] for overload in overloads])

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        advice = "wrap it in a Python function with named parameters"
        raise ConfigurationError(f"the parameters of {owner} cannot be read: {advice}") from None

    choice, takes_any = _parameters(signature, owner)
    return Signature([choice], takes_any)


def _declared_signatures(function: Callable[..., object]) -> list[inspect.Signature]:
    """Return the signatures that a callable object lists in its `signatures` attribute, or an empty list.

    For example, the evaluator of a prompt file lists the prompt's inputs there, because its `__call__` takes any.
    """
    listed = getattr(function, "signatures", None)
    signatures = listed if isinstance(listed, list) else []
    return [signature for signature in signatures if isinstance(signature, inspect.Signature)]


def _overloads(function: Callable[..., object]) -> list[inspect.Signature]:
    """Return the signatures of a callable object's `@overload`ed `__call__`, without self; else an empty list."""
    # `vars` shows whether `__call__` is a static method, which has no self.
    call = vars(type(function)).get("__call__") or getattr(type(function), "__call__", None)
    if inspect.isfunction(function) or not inspect.isfunction(call):
        return []

    signatures = [inspect.signature(overload) for overload in typing.get_overloads(call)]
    return [signature.replace(parameters=list(signature.parameters.values())[1:]) for signature in signatures]


def _parameters(signature: inspect.Signature, owner: str) -> tuple[dict[str, bool], bool]:
    """Return the parameters by name (True if required), and True if `**kwargs` takes all others.

    For `(response, query=None, **kwargs)`, these are `{"response": True, "query": False}` and True. `owner` names the
    evaluator or target in errors.

    Raises:
        ConfigurationError: a required parameter is positional-only, so it cannot be given by name.
    """
    choice: dict[str, bool] = {}
    takes_any = False

    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            advice = "remove the / after it, or wrap the function"
            raise ConfigurationError(f"{owner}: parameter {parameter.name!r} is positional-only: {advice}")
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            choice[parameter.name] = parameter.default is parameter.empty
    return choice, takes_any


def is_async(function: Callable[..., object]) -> bool:
    """Return True for a coroutine function, or an object with a coroutine function as `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


# -- evaluators


def bind_evaluator(
    name: str,
    evaluator: object,
    mapping: Mapping[str, Mapped],
    target_columns: frozenset[str] | None = None,
    *,
    only_mapped: bool = False,
) -> BoundEvaluator:
    """Prepare a user's evaluator for a run: read its parameters, attributes and fingerprint; instantiate a class.

    `target_columns` are the target's columns: None if unknown, empty without a target. With `only_mapped`, optional
    parameters get a column of the data only by the mapping.

    Raises:
        ConfigurationError: the evaluator is not callable, its class cannot be instantiated without arguments, or its
        parameters cannot be read.
    """
    # A class is instantiated first, because the attributes are read from the instance.
    function = _as_callable(name, evaluator)
    signature = read_signature(function, f"evaluator {name!r}")
    cpu_bound = bool(getattr(function, "cpu_bound", False))
    bind = make_binder(signature, mapping, f"evaluator {name!r}", only_mapped=only_mapped)
    asks_models = inspect.iscoroutinefunction(getattr(function, "call_with", None))

    return BoundEvaluator(
        name=name,
        function=function,
        signature=signature,
        bind=bind,
        asynchronous=asks_models or is_async(function),
        asks_models=asks_models,
        needs_target=_needs_target(bind, target_columns),
        pure=cpu_bound or bool(getattr(function, "pure", False)),
        cpu_bound=cpu_bound,
        fingerprint=fingerprint(function),
        primary=text_or_none(getattr(function, "primary", None)),
        metrics=declared_metrics(function),
    )


def declared_metrics(function: object) -> list[MetricEntry]:
    """Return the metrics that an evaluator declares in its attribute `metrics`; other things in it are ignored.

    A metric may be an object of any class with the attributes of `Metric`, such as `name` and `higher_is_better`.

    Raises:
        ConfigurationError: an attribute of a metric has a wrong type, or a limit is larger than the largest float.
    """
    declared, entries = getattr(function, "metrics", ()), list[MetricEntry]()
    for metric in declared if isinstance(declared, (list, tuple)) else ():
        try:
            entries.append(convert(metric, MetricEntry, from_attributes=True))
        except ValidationError as error:
            if hasattr(metric, "higher_is_better"):
                name = getattr(metric, "name", metric)
                raise ConfigurationError(f"metric {name!r}: {error}: correct the declaration of the metric") from None
    return entries


def _needs_target(binder: Binder, target_columns: frozenset[str] | None) -> bool:
    """Return True if the evaluator may read a column of the target's answer; it is then not called without an answer.

    It may do so through the mapping, or because the target has a column of the parameter's name. If the target's
    columns are unknown (None), they may have any parameter's name.
    """
    sources = {mapped.source for mapped in binder.mapping.values() if isinstance(mapped, Reference)}
    unmapped = {name for choice in binder.signature.choices for name in choice if name not in binder.mapping}
    from_target = unmapped if target_columns is None else unmapped & target_columns
    return "target" in sources or bool(from_target)


def _as_callable(name: str, evaluator: object) -> Callable[..., object]:
    """Return the evaluator as a callable; instantiate a class without arguments.

    Raises:
        ConfigurationError: an instance cannot be created, or the object is not callable.
    """
    # A class is callable, too, but calling it makes an instance instead of a verdict.
    if inspect.isclass(evaluator):
        try:
            evaluator = evaluator()
        except Exception as error:  # noqa: BLE001 - a user's class may raise anything
            problem = f"evaluator {name!r} cannot be created without arguments ({type(error).__name__}: {error})"
            raise ConfigurationError(f"{problem}: pass an instance, or correct its __init__") from error

    if not callable(evaluator):
        raise ConfigurationError(f"evaluator {name!r} must be a function or class, not a {type(evaluator).__name__}")
    return evaluator
