"""Creates evaluators by name, with the settings of `--set`.

`prepared_run.py` calls `make_evaluators()` with the settings that `settings_by_evaluator()` returns. A setting goes
through these steps:

1. `cli/_options.py` reads the option: `{"bleu.threshold": 0.4, "caller.key": "${env:KEY}"}`.
2. `_by_owner` groups the settings by evaluator: `{"bleu": {"threshold": 0.4}, "caller": {"key": "${env:KEY}"}}`.
3. `_resolve_references` replaces references by values from the environment. Files and fingerprints keep `${env:KEY}`.
4. `_check_settings` checks that each parameter exists and has this type, and that none is missing.

A secret must be a reference. Its value must have at least 8 characters, because shorter ones cannot be masked;
`${env:NAME:plain}` marks a value that is not secret.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from tunecheck._describe import Document, read_as
from tunecheck._errors import ConfigurationError
from tunecheck._fingerprints import HIDDEN
from tunecheck._json import JSON, dumps, value_of
from tunecheck._messages import did_you_mean
from tunecheck._trust import Trust
from tunecheck.endpoints import _masking as masking
from tunecheck.endpoints._base import Endpoint, Place
from tunecheck.formats._profiles import Profile
from tunecheck.formats._reading import choose_profile
from tunecheck.plugins import find

DEFAULT_EVALUATORS = ("function_call_match", "argument_match", "match")
"""The evaluators of a run if neither the command nor the data set names any."""

_PLAIN = (bool, int, float, str, NoneType)
"""Types whose values are checked before an evaluator is created."""


def make_evaluators(
    names: Iterable[str],
    settings: Mapping[str, Mapping[str, JSON]],
    judge: Endpoint | None = None,
    trust: Trust | None = None,
) -> dict[str, object]:
    """Return evaluators by name, created with their settings; LLM judges get the model `judge`.

    `trust` is the trust in the source of the names; by default, every file of the workspace may be loaded.

    Raises:
        ConfigurationError: an evaluator does not exist or cannot be created; secrets are masked in the text.
    """
    extensions = {name: find("evaluators", name, trust=trust) for name in names}

    try:
        return {name: _make(name, extensions[name], settings.get(name, {}), judge, trust) for name in extensions}
    except ConfigurationError as error:
        raise ConfigurationError(masking.ALL_SECRETS.text(str(error))) from None


def asks_models(evaluator: object) -> bool:
    """Return True if the evaluator is a judge that calls a model."""
    return getattr(evaluator, "judged", False) is True


def _make(
    name: str, extension: object, settings: Mapping[str, JSON], judge: Endpoint | None, trust: Trust | None
) -> object:
    """Return an evaluator: a function unchanged, a class created with its settings and, for a judge, the model `judge`.

    Raises:
        ConfigurationError: a setting is wrong or missing, or the class raises an error.
    """
    # The extension of a prompt file is the judge's class with the file bound.
    kind = extension.func if isinstance(extension, functools.partial) else extension

    if not inspect.isclass(kind):
        for parameter in settings:
            advice = f"leave --set out, or write a class whose __init__ takes {parameter}"
            raise ConfigurationError(f"--set {name}.{parameter}: {name!r} is a function without settings: {advice}")
        return extension

    assert callable(extension)
    given = {"model_config": judge} if judge is not None and asks_models(kind) else {}
    _check_settings(name, extension, kind, settings, frozenset(given), trust)

    try:
        return cast("object", extension(**given, **settings))
    except ConfigurationError as error:
        raise ConfigurationError(f"evaluator {name!r} cannot be created: {error}") from error
    except Exception as error:  # noqa: BLE001 - a plugin's own code may raise anything
        problem = f"evaluator {name!r} cannot be created ({type(error).__name__}: {error})"
        raise ConfigurationError(f"{problem}: correct its __init__, or the values of --set") from error


def _check_settings(
    name: str,
    make: Callable[..., object],
    kind: type,
    settings: Mapping[str, JSON],
    given: frozenset[str],
    trust: Trust | None,
) -> None:
    """Check an evaluator's settings: parameters exist, have the right types, and no required one is missing.

    `make` creates the evaluator, an instance of `kind`, from the settings of --set and from the `given` parameters,
    which --judge fills. A judge's model cannot be a setting. `trust` decides if the code of a named call format loads.

    Raises:
        ConfigurationError: a setting is wrong; the text names the option.
    """
    parameters: Sequence[inspect.Parameter] = [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
    with contextlib.suppress(TypeError, ValueError):  # a class in C, for example, has no signature
        parameters = [*inspect.signature(make).parameters.values()]

    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named_kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = {parameter.name: parameter for parameter in parameters if parameter.kind in named_kinds}

    hints: Mapping[str, Any] = {}
    with contextlib.suppress(Exception):  # annotations may be failing code; then types are not checked
        hints = get_type_hints(getattr(kind, "__init__"))  # noqa: B009 - a class's own, not an instance's

    for key, value in settings.items():
        # Without --judge, `model` may be a parameter of the evaluator's own.
        if key in given or key == "model_config" or (given and key == "model"):
            raise ConfigurationError(f"--set {name}.{key} cannot set the model of a judge: name the model with --judge")

        if key not in named and not takes_any:
            raise ConfigurationError(f"--set {name}.{key}: {name!r} has no parameter {key!r}{did_you_mean(key, named)}")

        hint = hints.get(key)
        types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if key in hints and all(hint_type in _PLAIN for hint_type in types):
            read_as(value, hints[key], f"--set {name}.{key}")

        if Profile in types and isinstance(value, str):  # loaded here, because `trust` is known here
            choose_profile(value, trust=trust)

    required = [key for key, parameter in named.items() if parameter.default is parameter.empty]
    missing = [key for key in required if key not in settings and key not in given]

    if missing:
        remedy = "--judge NAME" if missing[0] == "model_config" else f"--set {name}.{missing[0]}=…"
        raise ConfigurationError(f"evaluator {name!r} needs a value for {', '.join(missing)}: give {remedy}")


def settings_by_evaluator(entries: Mapping[str, JSON], evaluators: Iterable[str]) -> dict[str, dict[str, JSON]]:
    """Return the settings of `--set` by evaluator, with `${env:NAME}` replaced by the variable's value.

    For example `{"bleu": {"threshold": 0.4}}` for `{"bleu.threshold": 0.4}`.

    Raises:
        ConfigurationError: a name is not `evaluator.parameter` of this run, or a value may be a secret.
    """
    form = "evaluator.parameter=value, e.g. bleu.threshold=0.4"
    return {
        evaluator: {key: _resolve_references(f"{evaluator}.{key}", value) for key, value in own.items()}
        for evaluator, own in _by_owner(entries, "--set", form, [*evaluators]).items()
    }


def _by_owner(
    entries: Mapping[str, JSON], option: str, form: str, known: Sequence[str], default: str = ""
) -> dict[str, dict[str, JSON]]:
    """Group entries such as `{"bleu.threshold": 0.4}` by the word before the last dot, or by `default` without a dot.

    The result is `{"bleu": {"threshold": 0.4}}`. An evaluator's name may contain dots, a parameter may not.

    Raises:
        ConfigurationError: a word is not among the `known` ones, or an entry does not have this `form`.
    """
    grouped: dict[str, dict[str, JSON]] = {}
    for name, value in entries.items():
        owner, dot, parameter = name.rpartition(".")
        owner = owner if dot else default

        if not owner or not parameter:
            raise ConfigurationError(f"{option} {name!r} has the wrong form: write {form}")
        if owner not in known:
            hint = did_you_mean(owner, known)
            raise ConfigurationError(f"{option} {name!r}: this run has no evaluator {owner!r}{hint}")
        grouped.setdefault(owner, {})[parameter] = value
    return grouped


def _resolve_references(name: str, value: JSON) -> JSON:
    """Return the value of the setting `evaluator.parameter` with its references to the environment resolved.

    Each secret is added to `HIDDEN`, so that fingerprints and files contain its reference instead.

    Raises:
        ConfigurationError: a secret is written out, or is too short to be masked in output.
    """
    written = dumps(value).decode()
    # A setting with a secret's name, such as `caller.token`, needs a reference. So does any value that looks secret.
    without_references = value_of(masking.ENV_REFERENCE.sub("", written))
    is_secret = masking.looks_secret(name.rpartition(".")[2]) and without_references == value
    if is_secret or masking.storable_settings(without_references) != without_references:
        advice = "put it in an environment variable and write ${env:VARIABLE} instead"
        raise ConfigurationError(f"--set {name!r} may contain a secret: {advice}")

    place = Place(Document("--set", value, {}), (name,))
    resolved = masking.resolve(value, place, masking.ALL_SECRETS, in_answers=True)

    for reference in masking.ENV_REFERENCE.finditer(written):
        if not reference["plain"]:
            secret = os.environ[reference["name"]].strip()
            if len(secret) < masking.LEAST_ECHO:
                remedy = f"use a longer one, or write ${{env:{reference['name']}:plain}} if the value is not secret"
                raise ConfigurationError(f"--set {name!r}: the secret {reference[0]} is too short to mask: {remedy}")
            # Fingerprints contain this text. It changes with the secret, but does not reveal the secret.
            HIDDEN[secret] = f"{reference[0]} {masking.trace(secret)}"

    return resolved


def mapping_layers(entries: Mapping[str, JSON], evaluators: Iterable[str]) -> dict[str, dict[str, JSON]]:
    """Group entries such as `{"response": …, "bleu.response": …}` by layer: `default`, an evaluator, or `target`.

    The result is `{"default": {"response": …}, "bleu": {"response": …}}`.

    Raises:
        ConfigurationError: an entry names an evaluator that this run lacks, or no parameter.
    """
    form = "parameter=value or evaluator.parameter=value"
    return _by_owner(entries, "--mapping", form, [*evaluators, "target", "default"], "default")
