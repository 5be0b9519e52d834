"""The older dialect of prompts, which Azure AI Evaluation and prompt flow use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from tunecheck._fingerprints import content_hash
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.prompts._configuration import OlderConfiguration, check_secrets
from tunecheck.prompts._front_matter import Front, check_parameters, file_value, shown
from tunecheck.prompts._images import ImageFiles
from tunecheck.prompts._judge_section import read_judge
from tunecheck.prompts._older_messages import Splitter, may_have_roles
from tunecheck.prompts._prompt import Prompt, PromptInput

if TYPE_CHECKING:
    from tunecheck.prompts._template import Template, Where

_TYPES: Mapping[str, str] = MappingProxyType({
    "str": "string", "string": "string", "text": "string",
    "int": "integer", "integer": "integer",
    "float": "number", "double": "number", "number": "number",
    "bool": "boolean", "boolean": "boolean",
    "list": "array", "array": "array",
    "dict": "object", "object": "object",
})  # fmt: skip


def read_older(front: Front, body: str, where: Where, *, source: str, text: str, path: Path | None) -> Prompt:
    """The prompt that the two parts of a file make.

    Raises:
        PromptError: the file is wrong; names line and key.
    """
    from tunecheck.prompts._template import Template

    _check_api(front)
    check_secrets(front, "model", "configuration", references=True)
    check_secrets(front, "model", "parameters", references=False)
    images = ImageFiles()
    try:
        images = ImageFiles.of([body], front.folder)
    except ValueError as error:
        raise front.error((), f"the image {error}") from None
    template = Template(body, where, Splitter(images), trim_blocks=True)
    if not may_have_roles(template.own_text):
        raise front.error((), "the template has no role: write `system:` on a line of its own")
    sample = _sample(front)
    inputs = _inputs(front, sample, template)
    parameters = _resolved(front, "model", "parameters")
    check_parameters(front, parameters, "model", "parameters")
    return Prompt(
        name=front.text("name") or Path(source).stem,
        description=front.text("description"),
        path=path,
        dialect="prompty1",
        inputs=inputs,
        outputs=_outputs(front),
        parameters=parameters,
        configuration=front.mapping("model", "configuration"),
        response=_response(front),
        sample=sample,
        extra=read_judge(front),
        digest=digest("prompty1", body, inputs, images),
        source=source,
        _text=text,
        _template=template,
        _configured=OlderConfiguration(front),
    )


def digest(dialect: str, body: str, inputs: Mapping[str, PromptInput], images: ImageFiles) -> str:
    """A hash of all that a rendering depends on besides the values."""
    known: list[JSON] = [[item.name, item.required, item.default] for item in inputs.values()]
    return content_hash([dialect, body, known, list(images.digest())])


def _check_api(front: Front) -> None:
    api = front.text("model", "api") if front.mapping("model") else None
    if api == "completion":
        raise front.error(("model", "api"), "the completion API is not supported: write `api: chat`, and roles below")
    if api not in (None, "chat"):
        raise front.error(("model", "api"), f"{shown(api)} is not supported{did_you_mean(api, ['chat'])}")


def _response(front: Front) -> Literal["first", "all"]:
    text = (front.text("model", "response") or "first").lower()
    if text == "first":
        return "first"
    if text == "all":
        return "all"
    hint = did_you_mean(text, ("first", "all"))
    raise front.error(("model", "response"), f"{shown(text)} is neither first nor all{hint}")


def _resolved(front: Front, *path: str) -> dict[str, JSON]:
    given = front.mapping(*path)
    return {key: front.from_environment(value, (*path, key)) for key, value in given.items()}


def _sample(front: Front) -> dict[str, JSON]:
    """The values of `sample:`, which may name a JSON file."""
    given = front.value("sample")
    if not isinstance(given, str):
        return _resolved(front, "sample")
    name = given.removeprefix("file:")
    if not name.lower().endswith((".json", ".yaml", ".yml")):
        raise front.error(("sample",), "must be a mapping, or the name of a JSON file")
    value = file_value(name, ("sample",), front)
    if not isinstance(value, dict):
        raise front.error(("sample",), f"{name} must hold an object, not {shown(value)}")
    return value


def _inputs(front: Front, sample: Mapping[str, JSON], template: Template) -> dict[str, PromptInput]:
    """What `inputs:` declares, then what only the sample or the template names."""
    declared = {name: _input(front, name, value, sample) for name, value in front.mapping("inputs").items()}
    if "self" in declared:
        raise front.error(("inputs", "self"), "this name belongs to Jinja; give the input another one")
    rest = dict.fromkeys([*sample, *sorted(template.names)])
    found = {
        name: PromptInput(name, required=not template.may_lack(name), sample=sample.get(name))
        for name in rest
        if name not in declared
    }
    return declared | found


def _input(front: Front, name: str, value: JSON, sample: Mapping[str, JSON]) -> PromptInput:
    if value is None or isinstance(value, str):
        return PromptInput(name, type=value, sample=sample.get(name))
    if not isinstance(value, dict):
        raise front.error(("inputs", name), f"must be a mapping with `type:` and more, not {shown(value)}")
    return PromptInput(
        name,
        type=front.text("inputs", name, "type"),
        description=front.text("inputs", name, "description"),
        default=front.from_environment(value.get("default"), ("inputs", name, "default")),
        required="default" not in value,
        sample=sample.get(name, value.get("sample")),
    )


def _outputs(front: Front) -> dict[str, dict[str, JSON]]:
    outputs: dict[str, dict[str, JSON]] = {}
    for name in front.mapping("outputs"):
        schema = front.mapping("outputs", name)
        sort = front.text("outputs", name, "type")
        if sort is not None:
            if sort.lower() not in _TYPES:
                problem = f"{shown(sort)} is no type{did_you_mean(sort.lower(), _TYPES)}"
                raise front.error(("outputs", name, "type"), problem)
            schema = {**schema, "type": _TYPES[sort.lower()]}
        outputs[name] = schema
    return outputs
