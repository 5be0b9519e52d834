"""The newer prompty dialect ("prompty 2"), read with the package `prompty` (2.x), and the splitting of a rendering.

The package's own model of a prompt says what the front matter means. Its loader is not used: it puts secrets from the
environment into that model. Nor is its renderer: there a value that looks like a role header ends the rendering. A
header is a line such as `user:`, `# system:` or `user[name="Ann"]:`. What stands before the first is a system message.
"""

import copy
import functools
import importlib
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Protocol

from tunecheck._describe import shown_value
from tunecheck._errors import MissingExtraError
from tunecheck._json import JSON, parse_path, plain
from tunecheck._messages import did_you_mean
from tunecheck.endpoints._masking import Redactor
from tunecheck.prompts._fragments import Skeleton
from tunecheck.prompts._front_matter import OPENAI_URL, Front, check_parameters, check_secrets
from tunecheck.prompts._images import ImageFiles
from tunecheck.prompts._judge_section import read_judge
from tunecheck.prompts._prompt import Prompt, PromptFile, PromptInput, digest
from tunecheck.prompts._template import Template

_HEADER = re.compile(r"#?\s*+(system|user|assistant|developer)(?:\[([^\]]*+)\])?\s*+:", re.IGNORECASE)
_ATTRIBUTE = re.compile(r'\s*+(\w++)\s*+=\s*+(?:"([^"]*+)"|([^",\]]*+))\s*+(?:,|\Z)')

_MODEL_KEYS = ("id", "provider", "apiType", "connection", "options")
_PROMPTY1_MODEL_KEYS = ("api", "configuration", "parameters", "response")
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


def is_prompty2(front: Front) -> bool:
    model = front.value("model")
    keys = model if isinstance(model, dict) else {}
    newer = next((key for key in _MODEL_KEYS if key in keys), None)
    older = next((key for key in _PROMPTY1_MODEL_KEYS if key in keys), None)
    marked = "kind" in front.data or isinstance(model, str) or isinstance(front.value("inputs"), list)
    if older is not None and (marked or newer is not None):
        other = f"model.{newer}" if newer else "the rest"
        raise front.error(("model", older), f"belongs to the older dialect of prompts, {other} to the newer one")
    return marked or newer is not None


def read_prompty2(file: PromptFile) -> Prompt:
    front, body = file.front, file.body
    _check_template(front)
    if isinstance(front.value("model"), dict):
        check_secrets(front, "model", "connection", references=True)
        check_secrets(front, "model", "options", references=False)
    agent = _agent(front, file.source)
    if agent.tools:
        raise front.error(("tools",), "tools are not supported: a judge answers, it calls nothing")
    if not body.strip():
        raise front.error((), "there is no template below the front matter")
    # The package drops the blanks before the template.
    blank = body[: len(body) - len(body.lstrip())].count("\n")
    template = Template(body.lstrip(), lambda line: file.where(line + blank), _split, trim_blocks=False)
    secrets = Redactor()
    inputs = _inputs(front, agent, template, secrets)
    model = front.value("model")
    written = _parameters(agent)
    resolved = front.from_environment(written, ("model", "options"), secrets)
    parameters = resolved if isinstance(resolved, dict) else {}
    check_parameters(front, parameters, "model", "options")
    configuration = model if isinstance(model, dict) else {"id": model} if model else {}
    return Prompt(
        name=agent.name or file.stem,
        description=agent.description,
        dialect="prompty2",
        inputs=inputs,
        outputs={item.name: _schema(item) for item in agent.outputs or ()},
        parameters=parameters,
        written_parameters=written,
        secrets=secrets,
        configuration={key: value for key, value in configuration.items() if key != "options"},
        response="first",
        sample={name: item.sample for name, item in inputs.items() if item.sample is not None},
        extra=read_judge(front),
        digest=digest("prompty2", body, inputs, ImageFiles(), secrets),
        _file=file,
        _template=template,
        _definition=functools.partial(_definition, front),
    )


def _check_template(front: Front) -> None:
    for key, known in (("format", ("jinja2", "*")), ("parser", ("prompty", "*"))):
        given = front.mapping("template").get(key)
        path = ("template", key, "kind") if isinstance(given, dict) else ("template", key)
        kind = front.text(*path)
        if kind is not None and kind not in known:
            raise front.error(path, f"{shown_value(kind)} is not supported: write {known[0]}")


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


def _inputs(front: Front, agent: _Agent, template: Template, secrets: Redactor) -> dict[str, PromptInput]:
    declared: dict[str, PromptInput] = {}
    listed = isinstance(front.value("inputs"), list)
    for index, item in enumerate(agent.inputs or ()):
        if item.kind in _RICH:
            place = ("inputs", index if listed else item.name, "kind")
            raise front.error(place, f"inputs of kind {item.kind} are not supported: use a text")
        declared[item.name] = _input(front, item, secrets)
    names = [name for name in sorted(template.names) if name not in declared]
    return declared | {name: PromptInput(name, required=not template.may_lack(name)) for name in names}


def _input(front: Front, item: _Property, secrets: Redactor) -> PromptInput:
    """An input; one that is `required: false` and has no default is empty where it is left out, as in the package."""
    default, optional = plain(item.default), item.required is False
    return PromptInput(
        item.name,
        type=item.kind or None,
        description=item.description,
        default="" if default is None and optional else front.from_environment(default, ("inputs",), secrets),
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


def _parameters(agent: _Agent) -> dict[str, JSON]:
    """`model.options` under the names of OpenAI's API, further ones as they are."""
    options = agent.model.options if agent.model is not None else None
    if options is None:
        return {}
    named = {**(options.additional_properties or {}), **options.to_wire("openai")}
    if not named.get("stop"):
        named.pop("stop", None)
    written = plain(named)
    return written if isinstance(written, dict) else {}


# -- the model configuration: `model.provider`, `model.id` and `model.connection`, as the package has them


def _definition(front: Front) -> dict[str, JSON] | None:
    if isinstance(front.value("model"), str) or not front.mapping("model", "connection"):
        return None
    kind = front.filled_text("model", "connection", "kind") or ""
    known = ("key", "anonymous", "foundry")
    if kind not in known:
        problem = f"{kind!r} is none of {', '.join(known)}{did_you_mean(kind, known)}"
        raise front.error(("model", "connection", "kind"), problem)
    provider = front.filled_text("model", "provider") or ("foundry" if kind == "foundry" else "openai")
    if provider in ("foundry", "azure"):
        return _azure(front, kind)
    if provider == "openai":
        endpoint = front.filled_text("model", "connection", "endpoint") or OPENAI_URL
        return {"kind": "openai", "url": endpoint, "model": front.required_text("model", "id"), **_key(front)}
    problem = f"{shown_value(provider)} is not supported{did_you_mean(provider, ('openai', 'foundry', 'azure'))}"
    raise front.error(("model", "provider"), problem)


def _azure(front: Front, kind: str) -> dict[str, JSON]:
    endpoint = front.filled_text("model", "connection", "endpoint")
    if endpoint is None:
        raise front.error(("model", "connection", "endpoint"), "is missing")
    definition: dict[str, JSON] = {
        "kind": "azure_openai",
        "url": endpoint,
        "deployment": front.required_text("model", "id"),
    }
    if kind == "foundry":
        return {**definition, "auth": {"type": "entra"}}
    # The version that the package sends.
    return {**definition, "api_version": "2024-12-01-preview", **_key(front)}


def _key(front: Front) -> dict[str, JSON]:
    key = front.filled_text("model", "connection", "apiKey")
    return {"auth": {"type": "key", "value": key}} if key else {}


# -- from a rendered template to messages


def _split(skeleton: Skeleton) -> list[dict[str, JSON]]:
    messages: list[dict[str, JSON]] = []
    head: dict[str, JSON] = {"role": "system"}
    lines: list[str] = []
    for line in skeleton.text.splitlines():
        header = _header(line.strip(), skeleton)
        if header is None:
            lines.append(line)
            continue
        messages += _message(head, lines, skeleton)
        head, lines = header, []
    return messages + _message(head, lines, skeleton)


def _header(line: str, skeleton: Skeleton) -> dict[str, JSON] | None:
    match = _HEADER.fullmatch(line)
    if match is None:
        return None
    attributes = {} if match.group(2) is None else _attributes(match.group(2))
    if attributes is None:
        return None
    named = {name: skeleton.filled(value) for name, value in attributes.items() if name not in ("role", "content")}
    return {"role": match.group(1).lower(), **named}


def _attributes(text: str) -> dict[str, str] | None:
    """`name="Ann", id=7` as texts; None where it is nothing or something else."""
    attributes: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _ATTRIBUTE.match(text, position)
        if match is None:
            return None
        attributes[match.group(1)] = match.group(2) if match.group(2) is not None else match.group(3).strip()
        position = match.end()
    return attributes or None


def _message(head: dict[str, JSON], lines: list[str], skeleton: Skeleton) -> list[dict[str, JSON]]:
    if not lines:
        return []
    return [{**head, "content": skeleton.filled("\n".join(lines)).strip("\n")}]
