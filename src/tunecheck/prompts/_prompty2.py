"""The newer prompty dialect ("prompty 2"): reading files and splitting renderings into messages.

Prompts render as in the package `prompty`, except that a value that looks like a role header never opens a message. A
header is a line such as `user:` or `# system:`. Text before the first header is a system message. Inputs of kind
thread, image, audio or file are inserted as messages or as a part of a message.

    ---
    name: politeness
    model: {id: gpt-4o, provider: azure, connection: {kind: foundry, endpoint: "${env:AZURE_ENDPOINT}"}}
    inputs:
      - {name: answer, kind: string, required: true}
    ---
    system:
    You judge whether an answer is polite.
    user:
    {{ answer }}

`is_prompty2` has the rules that distinguish the two dialects, and `_definition` those for model configurations.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from tunecheck._describe import shown_value
from tunecheck._json import JSON, ValuePath, value_of
from tunecheck.endpoints._masking import SECRET_FIELD, Redactor
from tunecheck.prompts import _prompt as prompt
from tunecheck.prompts._front_matter import Front, read_judge, refuse_secrets, request_parameters
from tunecheck.prompts._template import ROLES, Inserted, LanguageName, Skeleton, Template

# -- properties: descriptions of inputs, outputs and tool parameters

# JSON Schema's type of each kind of property; the kinds thread, image, audio, file and union have none.
_TYPES: Mapping[str, str] = MappingProxyType(
    {"float": "number", **{name: name for name in ("string", "integer", "number", "boolean", "array", "object")}}
)

_SCALARS: Mapping[type, str] = MappingProxyType({str: "string", bool: "boolean", int: "integer", float: "float"})
"""The kinds of properties that are described only by an example value, by the value's type."""


class Property(msgspec.Struct, frozen=True):
    """An input, an output or a tool's parameter with its JSON Schema. `required` is None if the file does not say."""

    name: str
    kind: str
    schema: dict[str, JSON]
    required: bool | None = None
    default: JSON = None


def object_schema(properties: tuple[Property, ...], *, strict: bool) -> dict[str, JSON]:
    """Return the keywords of a JSON Schema for an object with these properties.

    With `strict`, as OpenAI's strict mode demands, each property is required, optional ones may be null, and no others
    are allowed.
    """
    required: list[JSON] = [item.name for item in properties if strict or item.required]
    schema: dict[str, JSON] = {
        "properties": {
            item.name: _nullable(item.schema) if strict and not item.required else item.schema for item in properties
        }
    }

    if required:
        schema["required"] = required
    if strict:
        schema["additionalProperties"] = False
    return schema


def _nullable(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Return a schema of this module extended so that it also accepts null; a list of types has null already.

    {"type": "string", "enum": ["a"]} becomes {"type": ["string", "null"], "enum": ["a", null]}.
    """
    kind, branches, values = schema.get("type"), schema.get("anyOf"), schema.get("enum")
    if isinstance(kind, str):
        schema = {**schema, "type": [kind, "null"]}
    elif isinstance(branches, list) and {"type": "null"} not in branches:
        schema = {**schema, "anyOf": [*branches, {"type": "null"}]}

    if isinstance(values, list) and None not in values:
        schema = {**schema, "enum": [*values, None]}
    return schema


def read_properties(front: Front, *path: str | int, named: bool = True, strict: bool = False) -> tuple[Property, ...]:
    """Return the properties that a list, or a mapping by name, describes at this path; empty if there are none.

    `named` is False for a list of alternatives, which have no names. With `strict`, their schemas are for OpenAI's
    strict mode.

    Raises:
        PromptError: a description has the wrong form.
    """
    described = front.value(*path)
    if described is None:
        return ()

    if isinstance(described, dict):
        return tuple(_read(front, value, name, (*path, name), strict) for name, value in described.items())

    if not isinstance(described, list):
        raise front.error(path, f"`{path[-1]}` must be a list or a mapping, not {shown_value(described)}")

    # Without a name (None), `_read` takes it from the description. Alternatives get the empty name.
    name = None if named else ""
    return tuple(_read(front, value, name, (*path, index), strict) for index, value in enumerate(described))


def _read(front: Front, value: JSON, name: str | None, path: ValuePath, strict: bool) -> Property:
    """Return the property that a value describes. If `name` is None, the name is a key of the value.

    The value of a property with a name may be an example. Its type gives the kind: `{city: Oslo}` describes a string.
    All other properties are mappings, such as `{kind: integer, required: true, description: …}`. With `strict`, their
    schemas are for OpenAI's strict mode.

    Raises:
        PromptError: the value is no description, or a key is missing.
    """
    if type(value) in _SCALARS and name:
        kind = _SCALARS[type(value)]
        return Property(name, kind, {"type": _TYPES[kind]})

    if not isinstance(value, dict):
        raise front.error(path, f"a property must be a mapping with `kind:`, not {shown_value(value)}")

    name = front.required_text(*path, "name") if name is None else name
    kind, required = front.required_text(*path, "kind"), value.get("required")
    schema = _schema(front, kind, value, path, strict=strict)
    return Property(name, kind, schema, required if isinstance(required, bool) else None, value.get("default"))


def _schema(
    front: Front, kind: str, described: Mapping[str, JSON], path: ValuePath, *, strict: bool
) -> dict[str, JSON]:
    """Return the JSON Schema of a property of this kind, from its description at this path of the front matter.

    With `strict`, it is for OpenAI's strict mode.

    Raises:
        PromptError: the items of an array or another key are missing, or an inner description is wrong.
    """
    schema: dict[str, JSON] = {"type": _TYPES[kind]} if kind in _TYPES else {}

    if description := front.text(*path, "description"):
        schema["description"] = description

    values, branches = described.get("enumValues"), described.get("anyOf")
    if isinstance(values, list) and values:
        schema["enum"] = values

    if kind == "array":
        if described.get("items") is None:
            raise front.error((*path, "items"), "an array needs the key `items`: write the type of its items")
        # Items have no name, so a value such as `string` is not read as an example.
        schema["items"] = _read(front, described["items"], "", (*path, "items"), strict).schema

    if kind == "object":
        properties = read_properties(front, *path, "properties", strict=strict)
        schema |= object_schema(properties, strict=strict) if strict or properties else {}

    if kind == "union" and branches:
        alternatives = read_properties(front, *path, "anyOf", named=False, strict=strict)
        schema["anyOf"] = [alternative.schema for alternative in alternatives]

    return _nullable(schema) if described.get("nullable") is True else schema


def read_tools(front: Front) -> tuple[list[JSON], list[str]]:
    """Return the functions in `tools:` as OpenAI tools, and notes for the user.

    Each note names a tool that is left out because it is no function. Parameters of a function that are bound to an
    input are left out, too, because the model must not set them.

    Raises:
        PromptError: `tools` is neither a list nor a mapping, a tool has no `kind`, or a function is not described
            correctly.
    """
    tools = front.value("tools")
    if tools is None:
        return [], []
    if not isinstance(tools, (list, dict)):
        raise front.error(("tools",), f"the tools must be a list or a mapping, not {shown_value(tools)}")

    functions: list[JSON] = []
    notes: list[str] = []
    for key in range(len(tools)) if isinstance(tools, list) else tools:
        kind = front.required_text("tools", key, "kind")
        if kind == "function":
            functions.append(_function(front, key))
        else:
            problem = f"the tool of kind {kind} is left out: only tools of kind function are supported"
            notes.append(str(front.error(("tools", key), problem)))
    return functions, notes


def _function(front: Front, key: str | int) -> dict[str, JSON]:
    """Return a function in `tools:` as an OpenAI tool.

    Its name is its key in a mapping; in a list, or if the key is empty, it is its `name`. Parameters that are bound to
    an input are left out, because the model must not set them.
    """
    path = ("tools", key)
    strict = front.value(*path, "strict") is True

    function: dict[str, JSON] = {"name": key if isinstance(key, str) and key else front.required_text(*path, "name")}
    description = front.text(*path, "description")
    if description is not None:
        function["description"] = description

    # Bindings are a list of `{name: …}`, or a mapping by name.
    bindings = front.value(*path, "bindings")
    if isinstance(bindings, list):
        bound = [item.get("name") for item in bindings if isinstance(item, dict)]
    else:
        bound = [*front.mapping(*path, "bindings")]

    declared = read_properties(front, *path, "parameters", strict=strict)
    parameters = tuple(item for item in declared if item.name not in bound)
    if parameters:
        function["parameters"] = {"type": "object", **object_schema(parameters, strict=strict)}

    if strict:
        function["strict"] = True
    return {"type": "function", "function": function}


# One attribute of a header, with the comma after it: `name="Ann",` or `id=7`.
_ATTRIBUTE = r'\s*+(\w++)\s*+=\s*+(?:"([^"\]]*+)"|([^",\]]*+))\s*+(?:,|\Z|(?=\]))'
# A role header, with attributes or without: "system:", "# User:" or `assistant[name="Ann", id=7]:`.
_HEADER = re.compile(rf"#?\s*+(system|user|assistant|developer)(?:\[((?:{_ATTRIBUTE})++)\])?\s*+:", re.IGNORECASE)
# `${env:REGION:westus}` has the default `westus`. `:plain` is a suffix of references, not a default.
_WITH_DEFAULT = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*):(?!plain\})(.+)\}\Z", re.DOTALL)

# Keys of `model` in the newer dialect, keys of `model` in the older one, and other keys of older files.
_MODEL_KEYS = ("id", "provider", "apiType", "options")
_PROMPTY1_MODEL_KEYS = ("api", "configuration", "parameters", "response")
_PROMPTY1_KEYS = ("inputs", "outputs", "sample", "judge")

# Template languages by their names in files.
_LANGUAGES: Mapping[str, LanguageName] = MappingProxyType(
    {"jinja2": "jinja2", "jinja": "jinja2", "*": "jinja2", "nunjucks": "nunjucks"}
)
_OPTIONS: Mapping[str, str] = MappingProxyType({
    "frequencyPenalty": "frequency_penalty", "presencePenalty": "presence_penalty", "temperature": "temperature",
    "maxOutputTokens": "max_completion_tokens", "reasoningEffort": "reasoning_effort", "seed": "seed",
    "topK": "top_k", "topP": "top_p", "stopSequences": "stop", "allowMultipleToolCalls": "parallel_tool_calls",
})  # fmt: skip
"""Options of a model, with their names in OpenAI's API."""

_INSERTED_KINDS = ("thread", "image", "audio", "file")
"""Kinds of inputs that are no text: they are inserted as messages or as a part of a message."""

_API_VERSION = "2024-12-01-preview"
"""The version of Azure's API that the package `prompty` uses."""


def is_prompty2(front: Front) -> bool:
    """Return whether a prompt file is of the newer dialect, by its keys. The first rule that applies decides:

    1. `model` has a key of the older dialect (such as `api`), and the file a key of the newer: error.
    2. The file has `kind`, `model` is a text, `inputs` is a list, or an input has a `kind`: newer.
    3. `model` has a key of the newer dialect (such as `id` or `options`): newer.
    4. The file has a `model`, or without one `inputs`, `outputs`, `sample` or `judge`: older.
    5. Else newer.

    Raises:
        PromptError: the file has keys of both dialects.
    """
    model, inputs = front.value("model"), front.value("inputs")
    model_keys = {*model} if isinstance(model, dict) else set[str]()
    older_key = next((key for key in _PROMPTY1_MODEL_KEYS if key in model_keys), None)
    # `connection` does not prove the newer dialect: prompt flow's samples have it in the older one.
    newer_keys = _MODEL_KEYS if older_key else (*_MODEL_KEYS, "connection")

    described = inputs.values() if isinstance(inputs, dict) else ()
    has_input_kinds = any("kind" in item for item in described if isinstance(item, dict))
    is_newer = "kind" in front.data or isinstance(model, str) or isinstance(inputs, list) or has_input_kinds
    is_newer = is_newer or not model_keys.isdisjoint(newer_keys)

    if older_key is not None and is_newer:
        problem = "this key belongs to the older prompt dialect, other keys to the newer: use one dialect"
        raise front.error(("model", older_key), problem)
    # A file without keys of either dialect is newer, because readers of the older dialect refuse it.
    return is_newer or (model is None and not any(key in front.data for key in _PROMPTY1_KEYS))


def read_prompty2(file: prompt.PromptFile) -> prompt.Prompt:
    """Read a prompt of the newer dialect from the parts of its file.

    Raises:
        PromptError: a key or the template is wrong; the message names file, line and key.
    """
    file = msgspec.structs.replace(file, front=file.front.with_texts(_with_default))
    front = file.front

    refuse_secrets(front, "model", "options")
    refuse_secrets(front, "model", "connection", references=True)
    if not file.body.strip():
        raise front.error((), "the template below the front matter is missing: write one")

    properties = read_properties(front, "inputs")
    template = _compile(file, properties)

    # Inputs are the declared properties, and variables that only the template names.
    secrets = Redactor()
    declared = {item.name: _input(front, item, secrets) for item in properties}
    names = [name for name in sorted(template.names) if name not in declared]
    inputs = declared | {name: prompt.PromptInput(name, required=not template.may_lack(name)) for name in names}

    # The tools and options of the model, with references to the environment replaced.
    tools, notes = read_tools(front)
    written = _parameters(front) | ({"tools": tools} if tools else {})
    resolved = front.from_environment(written, ("model", "options"), secrets)
    parameters = request_parameters(front, resolved, "model", "options")

    return prompt.Prompt(
        name=front.text("name") or file.stem,
        dialect="prompty2",
        inputs=inputs,
        outputs={output.name: output.schema for output in read_properties(front, "outputs")},
        parameters=parameters,
        written_parameters={key: value for key, value in written.items() if key in parameters},
        secrets=secrets,
        notes=tuple(notes),
        extra=read_judge(front),
        digest=prompt.digest("prompty2", file, inputs, {}, secrets),
        _file=file,
        _template=template,
        model_definition=functools.partial(_definition, front),
    )


def _compile(file: prompt.PromptFile, properties: Sequence[Property]) -> Template:
    """Return the template of a prompt with these inputs, without white space before it.

    A template that names none of its conversations, images and files gets the conversations at its end.

    Raises:
        PromptError: the template is wrong, or uses a conversation, an image or a file other than as `{{ name }}`.
    """
    language, strict = _template_settings(file.front)
    split = functools.partial(_split_at_headers, strict)

    inserted = [item for item in properties if item.kind in _INSERTED_KINDS]
    body = file.body.lstrip()
    blank_lines = file.body[: len(file.body) - len(body)].count("\n")

    def where(line: int) -> str:
        return file.where(line + blank_lines)

    template = Template(body, where, split, language)
    threads = [f"{{{{{item.name}}}}}" for item in inserted if item.kind == "thread"]
    if threads and not any(item.name in template.names for item in inserted):
        end = "" if body.endswith("\n") else "\n"
        template = Template("\n".join([f"{body}{end}user:", *threads]), where, split, language)

    # The template may write such an input only as a whole, because it has no text.
    for item in inserted:
        if item.name in template.used:
            problem = f"the {item.kind} {item.name} is not text: use it only as {{{{ {item.name} }}}}"
            raise file.front.error(("inputs",), problem)
    return template


def _with_default(text: str, path: ValuePath) -> str:
    """Return the default of `${env:NAME:default}`, or `${env:NAME}` if the variable is set and not empty.

    Other texts are unchanged. The last key in `path` is the text's own and tells whether the text is a secret. A secret
    gets no default, so its reference stays.
    """
    match = _WITH_DEFAULT.match(text)
    if match is None:
        return text

    is_secret = SECRET_FIELD.search(next(step for step in reversed(path) if isinstance(step, str)))
    return f"${{env:{match[1]}}}" if is_secret or os.environ.get(match[1]) else match[2]


def _template_settings(front: Front) -> tuple[LanguageName, bool]:
    """Return the template's language, and True if attributes in role headers are ignored, which is the default.

    `format: {strict: false}` makes attributes count.

    Raises:
        PromptError: the language or the parser is unknown.
    """
    kinds = {"format": "jinja2", "parser": "prompty"}

    for key, known in (("format", tuple(_LANGUAGES)), ("parser", ("prompty", "*"))):
        # `format: jinja2` and `format: {kind: jinja2}` mean the same.
        setting = front.mapping("template").get(key)
        path = ("template", key, "kind") if isinstance(setting, dict) else ("template", key)
        kinds[key] = front.one_of(known, kinds[key], *path, advice=f"write {kinds[key]}")

    return _LANGUAGES[kinds["format"]], front.value("template", "format", "strict") is not False


def _input(front: Front, item: Property, secrets: Redactor) -> prompt.PromptInput:
    """Convert a declared property to an input. An input is required if it is not optional and has no default.

    The default of an optional input is an empty text if the declaration has none. Values of environment variables in
    the default are added to `secrets`.
    """
    # A thread is optional unless the file marks it as required; other inputs are required unless marked as optional.
    optional = item.required is False or (item.kind == "thread" and not item.required)
    default = "" if item.default is None and optional else front.from_environment(item.default, ("inputs",), secrets)

    return prompt.PromptInput(
        item.name,
        type=item.kind,
        default=default,
        required=item.default is None and not optional,
        insert=functools.partial(_insertion, item.name, item.kind) if item.kind in _INSERTED_KINDS else None,
    )


def _parameters(front: Front) -> dict[str, JSON]:
    """Return `model.options` under their names in OpenAI's API, such as `max_completion_tokens` for `maxOutputTokens`.

    Options in `additionalProperties` keep their names; an empty `stopSequences` is left out.
    """
    options = front.mapping("model", "options") if isinstance(front.value("model"), dict) else {}
    named = {name: options[key] for key, name in _OPTIONS.items() if options.get(key) is not None}
    if not named.get("stop"):
        named.pop("stop", None)

    further = front.mapping("model", "options", "additionalProperties") if options else {}
    return {**further, **named}


# -- the model configuration: `model.provider`, `model.id` and `model.connection`, as in the package


def _definition(front: Front) -> dict[str, JSON] | None:
    """Return the prompt's model configuration as an endpoint definition; None without a connection.

    `model.provider` (by default `openai`, or `foundry` with a connection of kind `foundry`) and the connection's kind
    decide:

        openai                                       OpenAI's API at `endpoint`, by default OpenAI's own address
        foundry or azure, connection `foundry`       Azure OpenAI, signed in with Microsoft Entra
        foundry or azure, connection `key`           Azure OpenAI with the key `apiKey`
        foundry or azure, connection `anonymous`     Azure OpenAI without a key

    Raises:
        PromptError: the connection or the provider is unknown, or a key is missing.
    """
    if isinstance(front.value("model"), str) or not front.mapping("model", "connection"):
        return None

    kind = front.one_of(("key", "anonymous", "foundry"), "", "model", "connection", "kind")
    default = "foundry" if kind == "foundry" else "openai"
    provider = front.one_of(("openai", "foundry", "azure"), default, "model", "provider")
    key, endpoint = (front.text("model", "connection", name) for name in ("apiKey", "endpoint"))

    if provider == "openai":
        return prompt.definition_of(
            prompt.OPENAI, endpoint or prompt.OPENAI_URL, front.required_text("model", "id"), key=key
        )

    if endpoint is None:
        raise front.error(("model", "connection", "endpoint"), "the key `endpoint` is missing: write the url")
    deployment = front.required_text("model", "id")

    if kind == "foundry":
        return prompt.definition_of(prompt.AZURE, endpoint, deployment, entra=True)
    return prompt.definition_of(prompt.AZURE, endpoint, deployment, api_version=_API_VERSION, key=key)


# -- from a rendered template to messages


def _split_at_headers(strict: bool, skeleton: Skeleton) -> list[dict[str, JSON]]:
    """Split a rendered template into chat messages at its role headers; text above them is a system message.

    If `strict`, attributes of headers are ignored. A value cannot open a message: the skeleton has marks in the places
    of values, and no mark is a header.
    """
    messages: list[dict[str, JSON]] = []
    head: dict[str, JSON] = {"role": "system"}
    lines: list[str] = []

    for line in skeleton.text.splitlines():
        header = _HEADER.fullmatch(line.strip())
        if header is None:
            lines.append(line)
            continue
        _add_message(messages, head, lines, skeleton)
        head, lines = {"role": header[1].lower()}, []

        # An attribute may contain a value, but must not change who speaks or replace the text.
        for name, quoted, plain in re.findall(_ATTRIBUTE, "" if strict else header[2] or ""):
            if name not in ("role", "content"):
                head[name] = _attribute_value(skeleton.filled(quoted or plain.strip()))

    _add_message(messages, head, lines, skeleton)
    return messages


def _attribute_value(text: str) -> JSON:
    """Return true, false or a number if the text is one in JSON, such as 7 for "7"; else return the text.

    Texts such as "Nan" and "007", which Prompty reads as numbers, stay texts: they may be a name or an id.
    """
    value = value_of(text.lower())
    return value if isinstance(value, (bool, int, float)) else text


def _add_message(messages: list[dict[str, JSON]], head: dict[str, JSON], lines: list[str], skeleton: Skeleton) -> None:
    """Append the message with these lines to `messages`; do nothing if there are no lines.

    `head` has the role and the attributes of its header, `skeleton` fills in the values. Values that are not text, such
    as images, divide the lines and become messages or parts of their own.
    """
    if not lines:
        return

    pieces = list(skeleton.divided("\n".join(lines)))

    # Text alone: empty lines at its ends go, indentation stays.
    if len(pieces) == 1:
        messages.append({**head, "content": str(pieces[0]).strip("\n")})
        return

    for piece in pieces:
        if isinstance(piece, Inserted):
            messages += [dict(message) for message in piece.messages]
            if piece.part is not None:
                _add_part(messages, piece.part)
        elif piece.strip():
            messages.append({**head, "content": piece.strip()})


def _add_part(messages: list[dict[str, JSON]], part: dict[str, JSON]) -> None:
    """Append a content part, such as an image, to the last message if it is the user's, else as a new user message."""
    if not messages or messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": [part]})
        return
    content = messages[-1]["content"]
    messages[-1]["content"] = [*(content if isinstance(content, list) else [{"type": "text", "text": content}]), part]


# -- inputs that are not text


def _insertion(name: str, kind: str, value: JSON) -> Inserted:
    """Convert an input of kind thread, image, audio or file to the messages or the part that the template inserts.

    An empty value inserts nothing.

    Raises:
        TypeError: the value is not of this kind; the message begins with the input's name.
    """
    if not value:
        return Inserted.instead(kind)

    if kind == "thread":
        return Inserted.instead(kind, messages=list(_thread(name, value)))

    if not isinstance(value, str) or (kind == "image" and not prompt.is_url(value)):
        raise TypeError(f"{name} must be the address or the data of the {kind}, not {shown_value(value)}")

    if kind == "image":
        return Inserted.instead(kind, part={"type": "image_url", "image_url": {"url": value}})
    if kind == "audio":
        return Inserted.instead(kind, part={"type": "input_audio", "input_audio": {"data": value, "format": "wav"}})
    return Inserted.instead(kind, part={"type": "file", "file": {"url": value}})


def _thread(name: str, value: JSON) -> Iterator[dict[str, JSON]]:
    """Yield the messages of a conversation, with their roles in lower case. A message without a role is the user's.

    `value` is a list of messages or a single message.

    Raises:
        TypeError: an item is not a message with a known role; the error begins with the input's `name`.
    """
    for message in value if isinstance(value, list) else [value]:
        role = message.get("role", "user") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(role, str) or role.lower() not in ROLES:
            raise TypeError(f"{name} must be a list of messages with known roles, but has {shown_value(message)}")
        yield {"role": role.lower(), **{key: item for key, item in message.items() if key != "role"}}
