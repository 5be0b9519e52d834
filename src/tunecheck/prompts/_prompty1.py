"""The prompty dialect of Azure AI Evaluation and prompt flow ("prompty 1"): reading files and splitting renderings.

A role header is a line with only `system:`, `user:`, `assistant:` or `function:`, in any case, perhaps after a `#`.
Azure's loader searches the rendered text for headers. This module searches the text without values, in linear time. It
also reads prompt flow's `tool:` with `tool_call_id:`, and `assistant:` with `tool_calls:`. Unlike Azure's loader, it
reads the image of a message that contains nothing else.
"""

import functools
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from tunecheck._describe import shown_value
from tunecheck._json import JSON, object_or_empty
from tunecheck.calls._model import UnreadableError
from tunecheck.calls._python_text import literal_at
from tunecheck.endpoints._masking import Redactor
from tunecheck.prompts import _prompt as prompt
from tunecheck.prompts._front_matter import Front, file_value, read_judge, refuse_secrets, request_parameters
from tunecheck.prompts._template import Skeleton, Template

_ROLES = ("system", "user", "assistant", "function")
"""The roles that Azure's loader knows. prompt flow's `tool` is read, too."""

# A role, a colon and the end of the line, with blank lines below it: "user:\n" or "System :  \n\n".
_ROLE = re.compile(r"(?P<role>system|user|assistant|function|tool)\s*+:(?:[^\S\n]*+\n)++", re.IGNORECASE)
# The same at the beginning of a line, perhaps after a `#`: "# user:\n".
_HEADER = re.compile(r"^[^\S\n]*+(?:#\s*+)?" + _ROLE.pattern, re.IGNORECASE | re.MULTILINE)
# The rest of a line after a colon, if it is blank, and the white space before the next text.
_LINE_END = r"(?=[^\S\n]*+\n)\s*+"
# Up to two `#` before a key, and white space around them.
_MARK = r"\s*+#{0,2}+\s*+"
_CONTENT = _MARK + r"content\s*+:(?P<content>.*)"
# Below `function:`, the lines `name:`, the name, `content:` and the content: "name:\nget_weather\ncontent:\nsunny".
_NAMED = re.compile(r"name\s*+:" + _LINE_END + r"(?P<name>\S++)" + _CONTENT, re.DOTALL)
# Below `tool:`, the lines `tool_call_id:`, the id, `content:` and the content.
_TOOL = re.compile(_MARK + r"tool_call_id\s*+:" + _LINE_END + r"(?P<name>\S++)" + _CONTENT, re.DOTALL)
# Below `assistant:`, the line `tool_calls:` and the list of calls.
_CALLS = re.compile(_MARK + r"tool_calls\s*+:" + _LINE_END + r"(?P<calls>.*)", re.DOTALL)

# The types of inputs and outputs as prompt flow and Azure write them, with their names in JSON Schema.
_TYPES: Mapping[str, str] = MappingProxyType({
    "str": "string", "string": "string", "text": "string",
    "int": "integer", "integer": "integer",
    "float": "number", "double": "number", "number": "number",
    "bool": "boolean", "boolean": "boolean",
    "list": "array", "array": "array",
    "dict": "object", "object": "object",
})  # fmt: skip


def read_prompty1(file: prompt.PromptFile) -> prompt.Prompt:
    """Read a prompt of the older dialect from the parts of its file.

    Raises:
        PromptError: a key or the template is wrong; the message names file, line and key.
    """
    front = file.front
    if front.mapping("model"):
        front.one_of(("chat",), "chat", "model", "api", advice="write `api: chat` and add role headers to the template")
    refuse_secrets(front, "model", "parameters")
    refuse_secrets(front, "model", "configuration", references=True)

    try:
        images = prompt.read_images(file.body, front.folder)
    except ValueError as error:
        raise front.error((), f"an image cannot be used: {error}") from None

    template = Template(file.body, file.where, functools.partial(_split_at_roles, images), "jinja2 trimmed")
    if not any(map(_may_open_message, template.own_text)):
        raise front.error((), "the template has no role: write `system:` on a line of its own")

    secrets = Redactor()
    inputs = _inputs(front, template, secrets)

    written = front.mapping("model", "parameters")
    resolved = front.from_environment(written, ("model", "parameters"), secrets)
    parameters = request_parameters(front, resolved, "model", "parameters")
    # With `response: all`, a judge takes as many samples as the prompt asks for replies (`n`).
    samples = object_or_empty(resolved).get("n")
    wants_all = front.one_of(("first", "all"), "first", "model", "response") == "all" and samples is not None

    return prompt.Prompt(
        name=front.text("name") or file.stem,
        dialect="prompty1",
        inputs=inputs,
        outputs=_outputs(front),
        parameters=parameters,
        written_parameters={key: value for key, value in written.items() if key in parameters},
        secrets=secrets,
        notes=(),
        extra={**({"samples": samples} if wants_all else {}), **read_judge(front)},
        digest=prompt.digest("prompty1", file, inputs, images, secrets),
        _file=file,
        _template=template,
        model_definition=functools.partial(_definition, front),
    )


def _may_open_message(text: str) -> bool:
    """Return whether a text of the template has a role header, or is a word from which it may make a header."""
    return text.strip().lower() in ("role", *_ROLES) or _ROLE.search(text) is not None


def _sample_names(front: Front) -> Collection[str]:
    """Return the names in `sample:`, also from a JSON or YAML file; empty if that file is missing.

    The example values themselves are not used.

    Raises:
        PromptError: the section or the file does not hold a mapping.
    """
    section = front.value("sample")
    if not isinstance(section, str):
        sample = front.mapping("sample")
        front.from_environment(sample, ("sample",))  # refuses an unset variable
        return sample.keys()

    # A file's name, with or without the prefix that prompt flow writes.
    name = section.removeprefix("file:")

    if not name.lower().endswith((".json", ".yaml", ".yml")):
        raise front.error(("sample",), "the sample must be a mapping, or the name of a JSON or YAML file")

    # The file is optional, as in Azure and prompt flow, because the values are only examples.
    if front.folder is not None and not (front.folder / name).exists():
        return ()

    value = file_value(name, ("sample",), front)
    if not isinstance(value, dict):
        raise front.error(("sample",), f"the file {name} must hold an object, not {shown_value(value)}")
    return value.keys()


def _inputs(front: Front, template: Template, secrets: Redactor) -> dict[str, prompt.PromptInput]:
    """Return the declared inputs by name, then inputs that only the sample or the template names.

    Raises:
        PromptError: a declaration is wrong.
    """
    sample = _sample_names(front)
    inputs = {name: _input(front, name, value, secrets) for name, value in front.mapping("inputs").items()}
    if "self" in inputs:
        raise front.error(("inputs", "self"), "Jinja reserves the name `self`: rename the input")

    for name in (*sample, *sorted(template.names)):
        if name not in inputs:
            required = name in template.names and not template.may_lack(name)
            inputs[name] = prompt.PromptInput(name, required=required)
    return inputs


def _input(front: Front, name: str, value: JSON, secrets: Redactor) -> prompt.PromptInput:
    """Return a declared input; it is required unless the declaration has a default.

    `value` is the declaration: the input's type as a text, or a mapping. Values of environment variables in the default
    are added to `secrets`.

    Raises:
        PromptError: the declaration has another form, or an environment variable is not set.
    """
    if value is None or isinstance(value, str):
        return prompt.PromptInput(name, type=value)

    if not isinstance(value, dict):
        raise front.error(("inputs", name), f"an input must be a mapping with `type:`, not {shown_value(value)}")
    return prompt.PromptInput(
        name,
        type=front.text("inputs", name, "type"),
        default=front.from_environment(value.get("default"), ("inputs", name, "default"), secrets),
        required="default" not in value,
    )


def _outputs(front: Front) -> dict[str, dict[str, JSON]]:
    """Return the JSON schema of each output that the prompt declares, with the types' names in JSON Schema.

    Raises:
        PromptError: a type is unknown.
    """
    outputs: dict[str, dict[str, JSON]] = {}
    for name in front.mapping("outputs"):
        schema = front.mapping("outputs", name)
        if schema.get("type") is not None:
            schema = {**schema, "type": _TYPES[front.one_of([*_TYPES], "", "outputs", name, "type")]}

        outputs[name] = schema
    return outputs


# -- the model configuration: `model.configuration` with the keys that Azure's loader knows


def _definition(front: Front) -> dict[str, JSON] | None:
    """Return the prompt's model configuration as an endpoint definition; None without a configuration.

    The type is `azure_openai` or `openai`, as written or implied by the keys (`_implied_kind`). If the configuration
    only names a model or deployment, the variables OPENAI_API_KEY, or AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT,
    give the rest. Azure without a key signs in with Microsoft Entra.

    Raises:
        PromptError: the type is unknown, the configuration lacks a key or names a connection, or an environment
            variable in the name of its model or deployment is not set.
    """
    path = ("model", "configuration")
    configuration = front.mapping(*path)
    if not configuration:
        return None

    if configuration.get("connection") is not None:
        problem = "Tunecheck cannot look up prompt flow connections: write the endpoint in `model.configuration`"
        raise front.error((*path, "connection"), problem)

    kind = front.one_of((prompt.AZURE, prompt.OPENAI), _implied_kind(configuration), *path, "type")
    is_azure = kind == prompt.AZURE
    url_key, name_key = ("azure_endpoint", "azure_deployment") if is_azure else ("base_url", "model")
    url, key = front.text(*path, url_key), front.text(*path, "api_key")

    # If only the model is given, Azure's loader reads the rest from the environment.
    if {name for name, value in configuration.items() if value} <= {"type", "azure_deployment", "model"}:
        key = "${env:AZURE_OPENAI_API_KEY}" if is_azure else "${env:OPENAI_API_KEY}"
        url = "${env:AZURE_OPENAI_ENDPOINT}" if is_azure else None

    if is_azure and url is None:
        raise front.error((*path, url_key), f"the key `{url_key}` is missing: write the url")
    return prompt.definition_of(
        kind,
        url or prompt.OPENAI_URL,
        front.required_text(*path, name_key),
        api_version=(front.text(*path, "api_version") or "2024-02-01") if is_azure else None,
        key=key,
        entra=is_azure,
        headers=_http_headers(front),
    )


def _implied_kind(configuration: Mapping[str, JSON]) -> str:
    """Return the type of a model configuration that does not name one; empty if its keys do not tell."""
    if configuration.get("azure_deployment") or configuration.get("azure_endpoint"):
        return prompt.AZURE
    return prompt.OPENAI if configuration.get("model") else ""


def _http_headers(front: Front) -> dict[str, JSON]:
    """Return the HTTP headers of the model configuration; `organization` becomes OpenAI's header."""
    headers = front.mapping("model", "configuration", "extra_headers")
    organization = front.text("model", "configuration", "organization")
    if organization is not None:
        headers = {"OpenAI-Organization": organization, **headers}
    return headers


# -- from a rendered template to messages


def _split_at_roles(images: Mapping[str, str], skeleton: Skeleton) -> list[dict[str, JSON]]:
    """Split a rendered template into chat messages at its role lines; `images` are the template's image files.

    Raises:
        ValueError: there is text before the first role, a message is incomplete, or `tool_calls:` has a wrong item.
    """
    text = skeleton.text
    headers = [header for header in _HEADER.finditer(text) if _opens_message(header)]

    before = skeleton.filled(text[: headers[0].start()] if headers else text).strip()
    if before:
        shown = " ".join(before.split())[:40]
        raise ValueError(f"the prompt must begin with a role (`system:` on a line of its own), not with {shown!r}")

    ends = [*(header.start() for header in headers[1:]), len(text)]
    return [
        _message(header["role"].lower(), text[header.end() : end], skeleton, images)
        for header, end in zip(headers, ends, strict=True)
    ]


def _message(role: str, chunk: str, skeleton: Skeleton, images: Mapping[str, str]) -> dict[str, JSON]:
    """Return the message that a role line and the text below it (`chunk`) describe.

    `skeleton` fills in the values. `images` are the image files as data URLs by link.

    Raises:
        ValueError: a `function:` or `tool:` message is incomplete, or `tool_calls:` is not a list of mappings.
    """
    calls = _calls(chunk, skeleton) if role == "assistant" else None
    if calls is not None:
        return {"role": role, "tool_calls": calls}

    keys = {"tool": "tool_call_id", "function": "name"}
    match = _TOOL.match(chunk) if role == "tool" else _NAMED.search(chunk)
    if match is not None:
        content = _content(match["content"], skeleton, images)
        return {"role": role, keys.get(role, "name"): skeleton.filled(match["name"]), "content": content}

    # Other roles need no name. A `tool:` message is incomplete if a role line follows its id, before the content.
    if role in keys:
        name = "id" if role == "tool" else "name"
        raise ValueError(f"`{role}:` needs, each on its own line: `{keys[role]}:`, the {name}, `content:`, the content")
    return {"role": role, "content": _content(chunk, skeleton, images)}


def _content(chunk: str, skeleton: Skeleton, images: Mapping[str, str]) -> JSON:
    """Return the content of a message: a text, or a list of parts if it contains images.

    `chunk` is the message's text with the marks of `skeleton`, which fills in the values. `images` are the image files
    as data URLs by link. A link stays in the text if it is no image, or if it names a file but comes from a value.
    """
    parts: list[JSON] = []

    position = 0
    for start, end, link in prompt.find_images(chunk):
        url = prompt.image_url(skeleton.filled(link), images, own=skeleton.is_own(link))
        if url is not None:
            parts += _text_part(skeleton.filled(chunk[position:start]))
            parts.append({"type": "image_url", "image_url": {"url": url, "detail": "auto"}})
            position = end

    if not parts:
        return skeleton.filled(chunk).strip()
    return [*parts, *_text_part(skeleton.filled(chunk[position:]))]


def _calls(chunk: str, skeleton: Skeleton) -> JSON:
    """Return the calls below `tool_calls:` in a chunk, written in JSON or Python; None if there is no readable list.

    Raises:
        ValueError: the list contains something else than mappings.
    """
    match = _CALLS.match(chunk)

    # The list may contain values, so it is read from the filled text.
    written = skeleton.filled(match["calls"]).strip() if match is not None else ""
    if not written.startswith("["):
        return None

    try:
        calls, _ = literal_at(written)
    except UnreadableError:
        return None

    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise ValueError("`tool_calls:` must be followed by a list of mappings, one per call")
    return calls


def _opens_message(header: re.Match[str]) -> bool:
    """Return whether a role line opens a message. `tool:` opens one only above the line `tool_call_id:`."""
    return header["role"].lower() != "tool" or _TOOL.match(header.string, header.end()) is not None


def _text_part(text: str) -> list[JSON]:
    """Return the text as a list with one message part; an empty list for a blank text."""
    stripped = text.strip()
    return [{"type": "text", "text": stripped}] if stripped else []
