"""The newer dialect of prompts, read with the package `prompty` (2.x).

The package's own model of a prompt says what the front matter means. Its loader is not used: it puts secrets from the
environment into that model. Nor is its renderer: there a value that looks like a role header ends the rendering.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Protocol

from tunecheck._errors import MissingExtraError
from tunecheck._json import JSON, plain
from tunecheck._paths import parse_path
from tunecheck.prompts._configuration import NewerConfiguration, check_secrets
from tunecheck.prompts._front_matter import Front, check_parameters, shown
from tunecheck.prompts._images import ImageFiles
from tunecheck.prompts._judge_section import read_judge
from tunecheck.prompts._newer_messages import split
from tunecheck.prompts._older import digest
from tunecheck.prompts._prompt import Prompt, PromptInput

if TYPE_CHECKING:
    from tunecheck.prompts._template import Template, Where

_MODEL_KEYS = ("id", "provider", "apiType", "connection", "options")
_OLDER_MODEL_KEYS = ("api", "configuration", "parameters", "response")
_RICH = ("thread", "image", "file", "audio")
_TYPES: Mapping[str, str] = MappingProxyType(
    {"float": "number", **{name: name for name in ("string", "integer", "number", "boolean", "array", "object")}}
)


class _Property(Protocol):
    name: str
    kind: str
    description: str | None
    required: bool | None
    default: object
    example: object
    enum_values: list[object] | None


class _Options(Protocol):
    additional_properties: dict[str, object] | None

    def to_wire(self, provider: str) -> dict[str, object]: ...


class _Model(Protocol):
    options: _Options | None


class _Agent(Protocol):
    name: str
    description: str | None
    inputs: Sequence[_Property] | None
    outputs: Sequence[_Property] | None
    model: _Model | None
    tools: Sequence[object] | None


def is_newer(front: Front) -> bool:
    """Whether a front matter is of the newer dialect.

    Raises:
        PromptError: it mixes both.
    """
    model = front.value("model")
    keys = model if isinstance(model, dict) else {}
    newer = next((key for key in _MODEL_KEYS if key in keys), None)
    older = next((key for key in _OLDER_MODEL_KEYS if key in keys), None)
    marked = "kind" in front.data or isinstance(model, str) or isinstance(front.value("inputs"), list)
    if older is not None and (marked or newer is not None):
        other = f"model.{newer}" if newer else "the rest"
        raise front.error(("model", older), f"belongs to the older dialect of prompts, {other} to the newer one")
    return marked or newer is not None


def read_newer(front: Front, body: str, where: Where, *, source: str, text: str, path: Path | None) -> Prompt:
    """The prompt that the two parts of a file make.

    Raises:
        PromptError: the file is wrong, or of a sort that is not supported here; names line and key.
        MissingExtraError: the package `prompty` is not installed.
    """
    from tunecheck.prompts._template import Template

    _check_template(front)
    _check_secrets(front)
    agent = _agent(front, source)
    if agent.tools:
        raise front.error(("tools",), "tools are not supported: a judge answers, it calls nothing")
    if not body.strip():
        raise front.error((), "there is no template below the front matter")
    # The package drops the blanks before the template.
    blank = body[: len(body) - len(body.lstrip())].count("\n")
    template = Template(body.lstrip(), lambda line: where(line + blank), split, trim_blocks=False)
    inputs = _inputs(front, agent, template)
    return Prompt(
        name=agent.name or Path(source).stem,
        description=agent.description,
        path=path,
        dialect="prompty2",
        inputs=inputs,
        outputs={item.name: _schema(item) for item in agent.outputs or ()},
        parameters=_parameters(front, agent),
        configuration=_configuration(front),
        response="first",
        sample={name: item.sample for name, item in inputs.items() if item.sample is not None},
        extra=read_judge(front),
        digest=digest("prompty2", body, inputs, ImageFiles()),
        source=source,
        _text=text,
        _template=template,
        _configured=NewerConfiguration(front),
    )


def _check_template(front: Front) -> None:
    for key, known in (("format", ("jinja2", "*")), ("parser", ("prompty", "*"))):
        given = front.mapping("template").get(key)
        path = ("template", key, "kind") if isinstance(given, dict) else ("template", key)
        kind = front.text(*path)
        if kind is not None and kind not in known:
            raise front.error(path, f"{shown(kind)} is not supported: write {known[0]}")


def _check_secrets(front: Front) -> None:
    if isinstance(front.value("model"), dict):
        check_secrets(front, "model", "connection", references=True)
        check_secrets(front, "model", "options", references=False)


def _agent(front: Front, source: str) -> _Agent:
    package = _package(source)
    try:
        agent: _Agent = package.Agent.load(copy.deepcopy(dict(front.data)), package.LoadContext())
    except Exception as error:  # noqa: BLE001 - the package raises many sorts of error on a wrong file, none its own
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise front.error(_place(reason), f"the package prompty does not take it: {reason}") from None
    return agent


def _place(reason: str) -> tuple[str | int, ...]:
    """The path that an error of the package begins with, as in `inputs[1].items: missing required field`."""
    place, colon, _ = reason.partition(": ")
    try:
        return parse_path(place) if colon else ()
    except ValueError:
        return ()


def _package(source: str) -> ModuleType:
    try:
        package = importlib.import_module("prompty")
    except ImportError:
        package = None
    # A workspace has a folder of that name, which Python takes for a package where there is no other.
    if not hasattr(package, "Agent"):
        raise MissingExtraError(f"{source}: a prompt of the newer dialect (model.id, kind)", "prompty")
    assert package is not None
    return package


def _inputs(front: Front, agent: _Agent, template: Template) -> dict[str, PromptInput]:
    declared: dict[str, PromptInput] = {}
    listed = isinstance(front.value("inputs"), list)
    for index, item in enumerate(agent.inputs or ()):
        if item.kind in _RICH:
            place = ("inputs", index if listed else item.name, "kind")
            raise front.error(place, f"inputs of kind {item.kind} are not supported: use a text")
        declared[item.name] = _input(front, item)
    names = [name for name in sorted(template.names) if name not in declared]
    return declared | {name: PromptInput(name, required=not template.may_lack(name)) for name in names}


def _input(front: Front, item: _Property) -> PromptInput:
    """An input; one that is `required: false` and has no default is empty where it is left out, as in the package."""
    default, optional = plain(item.default), item.required is False
    return PromptInput(
        item.name,
        type=item.kind or None,
        description=item.description,
        default="" if default is None and optional else front.from_environment(default, ("inputs",)),
        required=default is None and not optional,
        sample=plain(item.example),
    )


def _schema(item: _Property) -> dict[str, JSON]:
    schema: dict[str, JSON] = {"type": _TYPES[item.kind]} if item.kind in _TYPES else {}
    if item.description:
        schema["description"] = item.description
    if item.enum_values:
        schema["enum"] = plain(item.enum_values)
    inner = getattr(item, "items", None)
    if item.kind == "array" and inner is not None and inner.kind:
        schema["items"] = _schema(inner)
    properties: Sequence[_Property] = getattr(item, "properties", None) or ()
    if item.kind == "object" and properties:
        schema["properties"] = {prop.name: _schema(prop) for prop in properties}
        schema["required"] = [prop.name for prop in properties if prop.required]
    return schema


def _parameters(front: Front, agent: _Agent) -> dict[str, JSON]:
    """`model.options` under the names of OpenAI's API, further ones as they are."""
    options = agent.model.options if agent.model is not None else None
    if options is None:
        return {}
    named = {**(options.additional_properties or {}), **options.to_wire("openai")}
    if not named.get("stop"):
        named.pop("stop", None)
    resolved = front.from_environment(plain(named), ("model", "options"))
    parameters = resolved if isinstance(resolved, dict) else {}
    check_parameters(front, parameters, "model", "options")
    return parameters


def _configuration(front: Front) -> Mapping[str, JSON]:
    model = front.value("model")
    given = model if isinstance(model, dict) else {"id": model} if model else {}
    return {key: value for key, value in given.items() if key != "options"}
