"""Make endpoints from definitions (YAML files or mappings).

A definition is found by its name or path, in this order (the suffix may be left out):

    a bare name (`my-endpoint`)         endpoints/my-endpoint, then ./my-endpoint, each also with .yaml and .yml
    a path, or a name with .yaml/.yml   as given, then below endpoints/

Its `kind` is an extension of the kind `endpoints`, so plug-ins and files of the workspace can add kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tunecheck import plugins
from tunecheck._describe import Document, shown_value
from tunecheck._errors import ConfigurationError, PluginError
from tunecheck._json import plain
from tunecheck._messages import did_you_mean, suggest_names
from tunecheck._trust import Trust
from tunecheck.endpoints._base import Definition, Endpoint, Place
from tunecheck.formats._reading import AUTO, choose_profile

_FOLDER = "endpoints"
"""The workspace's folder of definitions."""


def load_endpoint(
    source: str | Path | Mapping[str, object],
    *,
    name: str | None = None,
    workspace: Path | None = None,
    trust: Trust | None = None,
) -> Endpoint:
    """Return the endpoint that a definition describes.

    Args:
        source: a definition file, the name of a file in the workspace's `endpoints/` folder, or a mapping.
        name: the endpoint's name in results and errors; by default the file's stem, else the kind.
        workspace: the folder that contains `endpoints/`.
        trust: the origin of `source`. Without it, `source` is trusted.

    Raises:
        ConfigurationError: the definition is unreadable or wrong (the error names file, line and key), or the origin
            of `source` must not use it.
        PluginError: there is no endpoint kind of that name, or its class is no `Endpoint` with a `config_type`.
    """
    if trust is not None and not isinstance(source, Mapping):
        check_named(source, trust)

    definition = read_definition(source, name=name, workspace=workspace)
    try:
        kind = plugins.find("endpoints", definition.kind, workspace=workspace, trust=trust)
    except PluginError as error:
        raise PluginError(str(definition.at("kind").error(str(error)))) from error.__cause__

    if not (isinstance(kind, type) and issubclass(kind, Endpoint) and kind.config_type is not None):
        problem = "the kind's class must extend tunecheck.endpoints.Endpoint and set `config_type`"
        raise PluginError(str(definition.at("kind").error(problem)))

    endpoint = kind(definition)  # type: ignore[call-arg]  # a kind with a `config_type` takes its definition
    _set_format(endpoint, definition, trust)
    return endpoint


def _set_format(endpoint: Endpoint, definition: Definition, trust: Trust | None) -> None:
    """Set the endpoint's `profile` and `tools_as_text` from the definition's keys `format` and `tools`.

    Raises:
        ConfigurationError: `format` is unknown, or `tools: text` needs another format.
    """
    family = definition.data.get("format", AUTO)

    try:
        endpoint.profile = choose_profile(str(family), trust=trust)
    except PluginError as error:
        raise definition.at("format").error(str(error)) from error.__cause__

    endpoint.tools_as_text = definition.data.get("tools") == "text"
    if endpoint.tools_as_text and (endpoint.profile is None or endpoint.profile.prompt is None):
        problem = f"the format {family!r} cannot describe tools in the prompt: write another format, such as hermes"
        raise definition.at("tools").error(problem)


def check_named(source: str | Path, trust: Trust) -> None:
    """Check that the origin of `source`, which `trust` describes, may use this definition.

    Unless the user approved the definition, data may only name one in the workspace's `endpoints/` folder that runs no
    Python code.

    Raises:
        ConfigurationError: the origin must not use the definition, or there is no such definition.
    """
    path = _find_definition(Path(source), Path())

    trust.check(path, f"ask the endpoint {path.stem!r}", folder=_FOLDER)
    definition = read_definition(path)
    function = definition.data.get("function")
    if definition.kind == "python" and isinstance(function, str):
        # A definition may run any Python function, so data may name it only if the user approved it.
        act = f"run {function} as an endpoint"
        trust.check(path, act, never=True)
        file = definition.file(function.rpartition(":")[0])
        if file.suffix == ".py":
            # If data names the definition, `--trust` on it covers this file, too; `tunecheck trust` does not.
            (trust if trust.named_by is None else trust.of(path)).check(file, act, never=True)


def read_definition(
    source: str | Path | Mapping[str, object], *, name: str | None = None, workspace: Path | None = None
) -> Definition:
    """Read a definition from a file or a mapping. Its kind checks the keys later.

    The endpoint is called `name`, by default like the file without its suffix, or like a mapping's kind.
    `workspace` is the folder with the folder `endpoints`, by default the working folder.

    Raises:
        ConfigurationError: there is no such file, the definition is no mapping of JSON values, or it has no valid
            `kind`.
    """
    folder = workspace or Path()
    if isinstance(source, Mapping):
        try:
            document = Document("endpoint definition", plain(dict(source)), {})
        except TypeError as error:
            raise ConfigurationError(f"the endpoint definition has a value that is not JSON: {error}") from None
    else:
        from tunecheck._yaml import read_yaml  # loads PyYAML, which a definition that is a mapping does not need

        path = _find_definition(Path(source), folder)
        document, name, folder = read_yaml(path), name or path.stem, path.parent

    values = document.value
    if not isinstance(values, dict):
        problem = f"an endpoint definition must be a mapping, not {shown_value(values)}"
        raise ConfigurationError(f"{document.name}: {problem}: write keys, such as `kind: openai`")
    kind = values.get("kind")

    if kind is None:
        hint = suggest_names("kind", values) or ": write a kind, such as openai"
        raise Place(document).error(f"an endpoint needs the key `kind`{hint}")

    if not isinstance(kind, str) or not kind.strip():
        raise Place(document, ("kind",)).error(f"the kind must be a name, such as openai, not {shown_value(kind)}")
    return Definition(document, values, kind, name or kind, folder)


def _find_definition(path: Path, workspace: Path) -> Path:
    """Return the file of a definition that is given by path or by its name in the folder `endpoints`.

    The suffix may be left out. A bare name is searched in `endpoints` first, a path as given first.

    Raises:
        ConfigurationError: there is no such file, or the path is a URL.
    """
    folder = workspace / _FOLDER
    if path.parts[:1] in (("http:",), ("https:",)):
        raise ConfigurationError(
            f"give an endpoint's YAML file, not a URL: write {folder / 'NAME.yaml'} with kind, url and model, or make "
            "examples with `tunecheck init`"
        )

    is_name = path.parent == Path() and path.suffix not in (".yaml", ".yml")  # names prefer the workspace
    for base in (folder / path, path) if is_name else (path, folder / path):
        for candidate in (base, *(base.with_name(base.name + suffix) for suffix in (".yaml", ".yml"))):
            if candidate.is_file():
                return candidate

    known = [file.stem for file in folder.glob("*.y*ml")] if folder.is_dir() else []
    hint = did_you_mean(path.stem, known) or ": make examples with `tunecheck init`"
    looked = f" (looked in '.' and {_FOLDER!r})" if is_name else ""
    raise ConfigurationError(f"there is no endpoint definition {str(path)!r}{looked}{hint}")
