"""Column mapping: from `${data.…}` and `${target.…}` to the keyword parameters of an evaluator or a target.

Later layers override earlier ones: the data set's mapping, then `default`, then the evaluator's own. A parameter
without a mapping takes the target's column of its name, else the data's top-level column. There are no other guesses.
"""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, MISSING, Missing, ValuePath, find_value, parse_path, plain
from tunecheck._messages import did_you_mean
from tunecheck.calls._schemas import TOOL_COLUMNS, ToolDefinitions
from tunecheck.formats._collector import may_hold_calls
from tunecheck.formats._reading import cached_reading, tools_of

Source = Literal["data", "target"]

RowValues: TypeAlias = Mapping[str, object]
"""The columns of a row's data, or of the target's answer to it, by name."""


class ColumnMissingError(KeyError):
    """A row lacks the column that a required parameter is mapped to."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Reference:
    """`${data.a.b}`: the source of a value and the path to it."""

    source: Source
    steps: ValuePath
    text: str

    def resolve(self, data: RowValues, target: RowValues) -> object | Missing:
        """Return the value at the path in a row's data or target columns, or MISSING."""
        return find_value(data if self.source == "data" else target, self.steps)

    def value_in(self, data: RowValues, target: RowValues) -> object:
        """Return the value at the path in a row's data or target columns, or None if there is none."""
        value = self.resolve(data, target)
        return None if value is MISSING else value


@dataclass(frozen=True, slots=True)
class Constant:
    """A plain value in the mapping itself."""

    value: JSON


Mapped = Reference | Constant
MappingLayers = Mapping[str, Mapping[str, Mapped]]


def parse_mapping(mapping: Mapping[str, object], where: str | Callable[[str], str]) -> dict[str, Mapped]:
    """Parse one layer of a mapping; `where` is its place for errors, or returns the place of a parameter.

    Raises:
        ConfigurationError: a value looks like a reference but is not valid, or has no JSON form; the text names the
        parameter.
    """
    place = where if callable(where) else lambda name: where
    return {name: _parse_value(value, f"{place(name)}, parameter {name!r}") for name, value in mapping.items()}


def _parse_value(value: object, where: str) -> Mapped:
    """Return one value of a mapping: a Reference for a text with `${…}`, else a Constant. `where` is its place.

    Raises:
        ConfigurationError: a text looks like a reference but is not valid, or another value has no JSON form.
    """
    if not isinstance(value, str) or "${" not in value:
        if isinstance(value, str) and value.startswith(("data.", "target.")):
            shown = value[:200]
            raise ConfigurationError(f"{where}: {shown!r} lacks the ${{}} of a reference: write '${{{shown}}}'")
        try:
            return Constant(plain(value))
        except TypeError as error:
            raise ConfigurationError(f"{where}: expected a reference or a JSON value: {error}") from None
    reference = read_reference(value.strip())
    if reference is not None:
        return reference
    shown, hint = value[:200], "; write ${data.column}, ${data.a.b[0]}, ${data['a column']} or ${target.response}"
    for wrong, right in (("${run.outputs.", "${target."), ("${outputs.", "${target."), ("${inputs.", "${data.")):
        if wrong in shown:
            hint = f"; did you mean {shown.replace(wrong, right)!r}?"
            break
    raise ConfigurationError(f"{where}: {shown!r} is not a reference{hint}")


def read_reference(text: str) -> Reference | None:
    """Return the reference that `${data.…}` or `${target.…}` writes; None for any other text."""
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
    """Return the merged mapping of each evaluator; `target` has only its own layer.

    `config` is Azure's `evaluator_config`: `{"default": {"column_mapping": {…}}}`, or the older `{"default": {…}}`.
    `declared` is the data set's mapping for all evaluators, `declared_for` returns its mapping for one evaluator.

    Raises:
        ConfigurationError: the configuration names an unknown evaluator, or a value is not a reference.
    """
    names = [*evaluators, "target"]
    if not isinstance(config, (Mapping, type(None))):
        raise ConfigurationError(f"evaluator_config must be a dict of evaluators, not of type {type(config).__name__}")
    configured = {str(name): _mapping_in_entry(name, entry) for name, entry in (config or {}).items()}
    for name in configured:
        if name not in names and name != "default":
            raise ConfigurationError(
                f"evaluator_config: unknown evaluator {name!r}{did_you_mean(name, [*names, 'default'])}"
            )
    base = parse_mapping(declared, "the data set's column_mapping")
    base |= parse_mapping(configured.get("default", {}), "evaluator_config['default']")
    layers = {
        name: parse_mapping(declared_for(name), "the data set's column_mapping")
        | parse_mapping(configured.get(name, {}), f"evaluator_config[{name!r}]")
        for name in names
    }
    # The default layer is for evaluators only; the target uses its own mapping or columns of the same name.
    return {name: layer if name == "target" else base | layer for name, layer in layers.items()} | {"default": base}


def path_in_data(layer: Mapping[str, Mapped], parameter: str) -> ValuePath | None:
    """Return the path in the data to which a layer maps a parameter; None if it maps it to nothing there."""
    entry = layer.get(parameter)
    return entry.steps if isinstance(entry, Reference) and entry.source == "data" else None


def _mapping_in_entry(name: str, entry: object) -> Mapping[str, object]:
    """Return the column mapping in one entry of `evaluator_config`: the mapping itself, or under `column_mapping`.

    Raises:
        ConfigurationError: the entry is not a mapping, or has other keys next to `column_mapping`.
    """
    if not isinstance(entry, Mapping):
        raise ConfigurationError(f"evaluator_config[{name!r}] must be a mapping, not of type {type(entry).__name__}")
    mapping = entry.get("column_mapping", entry)
    other_keys = [key for key in entry if key != "column_mapping"] if mapping is not entry else []
    if other_keys:
        raise ConfigurationError(
            f"evaluator_config[{name!r}]: move {other_keys[0]!r} into 'column_mapping', or leave it out"
        )
    if mapping is None:
        return {}
    if not isinstance(mapping, Mapping):
        raise ConfigurationError(f"column_mapping of {name!r} must be a mapping, not of type {type(mapping).__name__}")
    return mapping


@dataclass(frozen=True, slots=True)
class _Binding:
    """One parameter of a callable, and the reference or constant that the mapping has for it, if any."""

    parameter: str
    mapped: Mapped | None
    required: bool


@dataclass(frozen=True, slots=True)
class Binder:
    """Builds the keyword arguments of one call from a row's data columns and target columns.

    `choices` are the possible parameter lists. `takes_any`: the callable has `**kwargs`. `only_mapped`: optional
    parameters get a value only if the mapping names them. `what` names the callable in errors; binders that differ only
    in `what` are equal.
    """

    choices: tuple[tuple[_Binding, ...], ...]
    takes_any: bool
    only_mapped: bool
    what: str = field(compare=False)

    def __call__(self, data: RowValues, target: RowValues) -> dict[str, object]:
        """Return the arguments for one row, for the first parameter list whose required columns the row has.

        A callable with `**kwargs` gets all other columns, too.

        Raises:
            ColumnMissingError: the row lacks a column for a required parameter.
        """
        first_error: ColumnMissingError | None = None
        optional = {} if self.only_mapped else data
        for bindings in self.choices:
            try:
                arguments = _bind(bindings, data, optional, target, self.what)
            except ColumnMissingError as error:
                first_error = first_error or error
            else:
                return {**optional, **target, **arguments} if self.takes_any else arguments
        raise first_error or ColumnMissingError(
            f"{self.what} takes no parameters, so it cannot receive columns: add a parameter, such as response"
        )


def make_binder(signature: Signature, mapping: Mapping[str, Mapped], what: str, *, only_mapped: bool = False) -> Binder:
    """Return the binder that builds an evaluator's arguments for each row; `what` names the evaluator in errors.

    An evaluator with `**kwargs` gets every column. With `only_mapped`, optional parameters get a value only if the
    mapping names them.
    """
    choices: list[tuple[_Binding, ...]] = []
    for parameters in signature.choices:
        bindings = [_Binding(name, mapping.get(name), required) for name, required in parameters.items()]
        if signature.takes_any:
            bindings += [_Binding(name, value, False) for name, value in mapping.items() if name not in parameters]
        choices.append(tuple(bindings))
    return Binder(tuple(choices), signature.takes_any, only_mapped, what)


def _bind(
    bindings: Sequence[_Binding], data: RowValues, optional: RowValues, target: RowValues, what: str
) -> dict[str, object]:
    """Return the arguments of one call by parameter name, without optional parameters that have no value.

    A parameter without a mapping takes the target's column of its name, else that of `data` if it is required, else
    that of `optional`.

    Raises:
        ColumnMissingError: a required parameter has no value in this row.
    """
    arguments: dict[str, object] = {}
    for binding in bindings:
        mapped, name = binding.mapped, binding.parameter
        if mapped is None:
            value = target[name] if name in target else (data if binding.required else optional).get(name, MISSING)
        elif isinstance(mapped, Constant):
            value = mapped.value
        else:
            value = mapped.resolve(data, target)
        if value is not MISSING:
            arguments[name] = value
        elif binding.required:
            if isinstance(mapped, Reference):
                reason = f"is mapped to {mapped.text}, which this row does not have"
            else:
                reason = "has no mapping, and this row has no column of that name"
            raise ColumnMissingError(f"{what}: parameter {name!r} {reason}")
    return arguments


def check_binding(
    signature: Signature,
    mapping: Mapping[str, Mapped],
    what: str,
    *,
    columns: frozenset[str],
    target_columns: frozenset[str] | None,
    has_target: bool,
) -> None:
    """Check before the first row that the columns can supply every required parameter of the evaluator `what`.

    `target_columns` are None if they are unknown before a call; then only the mapping's names are checked.

    Raises:
        ConfigurationError: a mapping names an unknown column, the name of a column stands as a constant text, or a
        required parameter has no column.
    """
    for name, mapped in mapping.items():
        if not signature.takes_any and name not in signature:
            continue
        where = f"{what}, parameter {name!r}"
        if isinstance(mapped, Reference):
            _check_reference(mapped, where, columns, target_columns, has_target)
        elif isinstance(mapped.value, str) and mapped.value in columns:
            raise ConfigurationError(
                f"{where}: {mapped.value!r} is a fixed text, not the column; "
                f"for the column, write '${{data.{mapped.value}}}'"
            )
    if has_target and target_columns is None:
        return  # the columns of a function's answer are known only after a call
    supplied = mapping.keys() | columns
    if has_target and target_columns is not None:
        supplied |= target_columns
    missing_by_choice = [
        [name for name, required in choice.items() if required and name not in supplied] for choice in signature.choices
    ]
    if not all(missing_by_choice):
        return
    missing = missing_by_choice[0]
    known = [f"${{data.{column}}}" for column in sorted(columns)][:12]
    raise ConfigurationError(
        f"{what} needs {', '.join(map(repr, missing))}: map it, e.g. --mapping {missing[0]}='${{data.…}}', "
        f"in Python column_mapping={{{missing[0]!r}: '${{data.…}}'}}. The data has {', '.join(known) or 'no columns'}"
    )


def tools_left_out(signature: Signature, mapping: Mapping[str, Mapped], columns: frozenset[str]) -> str | None:
    """Return the data's column of tool definitions if the evaluator would get them only by a mapping, else None."""
    takes_tools = _TOOLS in signature
    if not takes_tools or _TOOLS in mapping or _TOOLS in columns:
        return None
    return next((column for column in TOOL_COLUMNS if column in columns), None)


def _check_reference(
    mapped: Reference, where: str, columns: frozenset[str], target_columns: frozenset[str] | None, has_target: bool
) -> None:
    """Check that the column of a reference exists, as far as the columns are known; `where` names the parameter.

    Raises:
        ConfigurationError: there is no such column, or the reference needs a target and the run has none.
    """
    if mapped.source == "target" and not has_target:
        raise ConfigurationError(f"{where}: {mapped.text} needs a target, but this run has none: use ${{data.…}}")
    known = columns if mapped.source == "data" else target_columns
    if known is None:
        return
    names = [str(step) for step in itertools.takewhile(lambda step: isinstance(step, str), mapped.steps)]
    for count in range(1, len(names) + 1):
        if ".".join(names[:count]) in known:  # a column's name may contain dots
            return
    column = str(mapped.steps[0])
    raise ConfigurationError(f"{where}: there is no column {column!r} for {mapped.text}{did_you_mean(column, known)}")


@dataclass(frozen=True, slots=True)
class Signature:
    """The possible parameter lists of a callable.

    Each choice maps parameter names to True if required. Most callables have one choice; a callable with overloads
    (such as Azure AI Evaluation's evaluators) has several, tried in order. `takes_any`: it accepts `**kwargs`.
    """

    choices: Sequence[Mapping[str, bool]]
    takes_any: bool = False

    def __contains__(self, name: str) -> bool:
        """Return True if a choice has a parameter of this name."""
        return any(name in choice for choice in self.choices)


def read_signature(function: Callable[..., object], what: str) -> Signature:
    """Return the signature of a function or of an instance's `__call__`; `what` names it in errors.

    Raises:
        ConfigurationError: a required parameter is positional-only, or the parameters cannot be determined.
    """
    overloads = _declared_signatures(function) or _overloads(function)
    if overloads:
        # Overloads list every parameter that they take: `**kwargs` in one of them admits no other.
        return Signature([_parameters(overload, what)[0] for overload in overloads])
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ConfigurationError(f"{what}: its parameters cannot be read; wrap it in a function") from None
    choice, takes_any = _parameters(signature, what)
    return Signature([choice], takes_any)


def _declared_signatures(function: Callable[..., object]) -> list[inspect.Signature]:
    """Return the signatures that a callable object lists in its `signatures` attribute, or an empty list."""
    listed = getattr(function, "signatures", None)
    return [each for each in listed if isinstance(each, inspect.Signature)] if isinstance(listed, list) else []


def _overloads(function: Callable[..., object]) -> list[inspect.Signature]:
    """Return the signatures of a callable object's `@overload`ed `__call__`, without self; else an empty list."""
    call = vars(type(function)).get("__call__") or getattr(type(function), "__call__", None)
    if inspect.isfunction(function) or not inspect.isfunction(call):
        return []
    signatures = [inspect.signature(overload) for overload in typing.get_overloads(call)]
    return [signature.replace(parameters=list(signature.parameters.values())[1:]) for signature in signatures]


def _parameters(signature: inspect.Signature, what: str) -> tuple[dict[str, bool], bool]:
    """Return the parameters by name (True if required), and True if `**kwargs` takes all others.

    Raises:
        ConfigurationError: a required parameter is positional-only, so it cannot be given by name.
    """
    choice: dict[str, bool] = {}
    takes_any = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise ConfigurationError(f"{what}: {parameter.name!r} is positional-only: remove / from the signature")
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            choice[parameter.name] = parameter.default is parameter.empty
    return choice, takes_any


def is_async(function: Callable[..., object]) -> bool:
    """Return True for a coroutine function, or an object with a coroutine function as `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


_GROUND_TRUTH = "ground_truth"
_TOOLS = "tool_definitions"


def row_kind_reader(layers: MappingLayers) -> Callable[[RowValues, RowValues], str | None]:
    """Return a function that returns a row's kind, given its data and target columns."""
    read_truth, read_tools = value_reader(layers, _GROUND_TRUTH), value_reader(layers, _TOOLS)

    def kind(data: RowValues, target: RowValues) -> str | None:
        """Return `call` if the row's ground truth contains a call, else `answer`; None without a ground truth."""
        truth = read_truth(data, target)
        if truth is None:
            return None
        tools = tools_of(read_tools(data, target))
        has_call = _contains_call(truth, tools) or (isinstance(truth, list) and _turns_contain_call(truth))
        return "call" if has_call else "answer"

    return kind


def value_reader(layers: MappingLayers, parameter: str, *columns: str) -> Callable[[RowValues, RowValues], object]:
    """Return a function that reads a parameter's value from a row's data and target columns; None without a value.

    The first layer that maps the parameter counts, `default` before the evaluators' own. Without a mapping, the value
    is that of the data's column of this name, else of the first of `columns`.
    """
    entries = [layers["default"].get(parameter), *(layer.get(parameter) for layer in layers.values())]
    mapped = next((entry for entry in entries if entry is not None), None)
    if mapped is None:
        names = (parameter, *columns)
        return lambda data, target: next((data[name] for name in names if data.get(name) is not None), None)
    if isinstance(mapped, Constant):
        value = mapped.value
        return lambda data, target: value
    return mapped.value_in


def _contains_call(value: object, tools: ToolDefinitions | None = None) -> bool:
    """Return True if a ground truth is a call, also one that cannot be parsed."""
    reading = cached_reading(value, tools)
    return bool(reading.calls or reading.problem)


def _turns_contain_call(value: list[object]) -> bool:
    """Return True if a ground truth is a list of turns, each a list, and a turn contains a call."""
    turns = [turn for turn in value if isinstance(turn, list)]
    if len(turns) < len(value):
        return False
    items = [item for turn in turns for item in turn if not isinstance(item, str) or may_hold_calls(item, gated=True)]
    return any(_contains_call(f"[{item}]" if isinstance(item, str) else item) for item in items)
