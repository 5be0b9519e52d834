"""Read the front matter of a `.prompty` file. Mistakes raise PromptError, which names file, line and key.

A prompt may refer to files with `${file:NAME}` as a whole value. They must be in the prompt's folder, or
be JSON, YAML or image files of the workspace. A variable of the environment replaces `${env:NAME}` as a whole value.
In the model's settings, a secret must be such a reference, and only the model's configuration may have one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeGuard, cast

import msgspec

from tunecheck._describe import Document, Written, read_as, shown_value
from tunecheck._disk import read_regular
from tunecheck._errors import ConfigurationError, PromptError
from tunecheck._json import JSON, ValuePath, loads, map_texts, object_or_empty, plain
from tunecheck._messages import did_you_mean, suggest_names
from tunecheck._yaml import parse_document
from tunecheck.calls._model import MAX_DEPTH, is_deeper
from tunecheck.endpoints._base import Place
from tunecheck.endpoints._masking import ENV_REFERENCE, SECRET_FIELD, WHOLE_SECRET, WRITTEN_OUT, Redactor, insert_env

# -- files that a prompt refers to, in its folder or shared data of its workspace

_SHARED_SUFFIXES = (".json", ".yaml", ".yml", ".gif", ".jpeg", ".jpg", ".png", ".webp")
"""Endings of files outside the prompt's folder that a prompt may read: data and images, no code and no secrets."""


def read_referenced(folder: Path | None, file: str, most: int) -> bytes:
    """Return the content of `file` in the prompt's folder, or of a shared data file of the workspace.

    Raises:
        ValueError: there is no folder, or the file is elsewhere, unreadable or larger than `most` bytes; the message
            names the file.
    """
    if folder is None:
        raise ValueError(f"{file!r} cannot be read, because the prompt is a text, not a file: use a prompt file")

    try:
        base = folder.resolve(strict=True)
        path = (base / file).resolve(strict=True)
        if not path.is_relative_to(base) and not _is_shared(path, base):
            problem = "move it there; only JSON, YAML and images may be elsewhere"
            raise ValueError(f"{file!r} is outside the prompt's folder: {problem}")
        return read_regular(path, most)
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{file!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _is_shared(path: Path, base: Path) -> bool:
    """Return whether a file outside the prompt's folder may be read: a JSON, YAML or image file of the same workspace.

    `path` is the file and `base` the prompt's folder, both without links. Hidden files and files in hidden folders may
    not be read.
    """
    workspace = Path.cwd().resolve()
    if not base.is_relative_to(workspace) or not path.is_relative_to(workspace):
        return False

    hidden = any(part.startswith(".") for part in path.relative_to(workspace).parts)
    return path.suffix.lower() in _SHARED_SUFFIXES and not hidden


MAX_BYTES = 1 << 20
"""Maximum size of a prompt file, and of a file that it refers to."""

# A line of at least three hyphens.
_RULE = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE)
# Matches a first line such as `--`, `+++`, `===` or a fence of backticks with a language.
_NEARLY_RULE = re.compile(r"\s*(?:-+|\++|={3,}|`{3,}.*)[ \t]*$", re.MULTILINE)
"""A first line that looks like a misspelt `---`."""

# A value that is only a reference to a file: `${file:schema.json}`.
_FILE_REFERENCE = re.compile(r"\$\{file:([^{}]*)\}\Z")


class Front(msgspec.Struct, frozen=True):
    """The data of a front matter, with references to files resolved, and errors about its keys.

    `folder` is the prompt's folder, to which the names of files are relative; None if the prompt was given as text.
    """

    data: Mapping[str, JSON]
    document: Document
    folder: Path | None

    def error(self, path: ValuePath, problem: str) -> ConfigurationError:
        """Return a PromptError about the value at this path, with file, line and key."""
        return Place(self.document, path, PromptError).error(problem)

    def with_texts(self, change: Callable[[str, ValuePath], JSON]) -> Front:
        """Return a copy with each text of the data replaced by `change(text, path)`."""
        return Front(cast("dict[str, JSON]", map_texts(dict(self.data), change)), self.document, self.folder)

    def value(self, *path: str | int) -> JSON:
        """Return the value at this path of keys and indexes, or None if a key is missing.

        `value("inputs", 0, "name")` is the name of the first input. A list must have the index.
        """
        value: JSON = dict(self.data)
        for key in path:
            if isinstance(value, list) and isinstance(key, int):
                value = value[key]
            else:
                value = value.get(key) if isinstance(value, dict) and isinstance(key, str) else None

        return value

    def mapping(self, *path: str | int) -> dict[str, JSON]:
        """Return the mapping at this path; empty if the key is absent.

        Raises:
            PromptError: the value is no mapping.
        """
        value = self.value(*path)
        if value is None:
            return {}

        if not isinstance(value, dict):
            raise self.error(path, f"`{path[-1]}` must be a mapping, not {shown_value(value)}")
        return value

    def text(self, *path: str | int) -> str | None:
        """Return the text at this path, a number as a text, or None if the text is absent or blank.

        Raises:
            PromptError: the value is neither a text nor a number.
        """
        value = self.value(*path)
        if value is None or isinstance(value, str):
            return value if value and value.strip() else None

        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
        raise self.error(path, f"`{path[-1]}` must be a text, not {shown_value(value)}")

    def one_of(self, known: Sequence[str], default: str, *path: str | int, advice: str = "") -> str:
        """Return the text at this path in lower case, or the default if it is absent or blank.

        The error suggests a similar word. If no word is similar, it gives the `advice`; without advice, it lists the
        known words.

        Raises:
            PromptError: the text is not among the known words, or it is missing and the default is empty.
        """
        word = (self.text(*path) or default).lower()
        if not word:
            raise self.error(path, f"`{path[-1]}` is missing or empty: write one of {', '.join(known)}")
        if word not in known:
            end = suggest_names(word, known) or f": {advice}" if advice else did_you_mean(word, known)
            raise self.error(path, f"`{path[-1]}` cannot be {shown_value(word)}{end}")
        return word

    def required_text(self, *path: str | int) -> str:
        """Return the text at this path, with references such as `${env:NAME}` as they are written.

        Raises:
            PromptError: the text is absent or blank, or refers to a variable that is not set.
        """
        text = self.text(*path)
        if text is None:
            raise self.error(path, f"the key `{path[-1]}` is missing: write a text")
        self._fill_in(text, path)  # refuses an unset variable
        return text

    def from_environment(self, value: JSON, path: ValuePath, redactor: Redactor | None = None) -> JSON:
        """Return the value with each text that is only a reference replaced by the value of the variable.

        References are `${env:NAME}` and `${env:NAME:plain}`. Other texts stay unchanged. `path` is the value's place in
        the front matter. The redactor, if there is one, masks the values of references without `:plain` from now on.

        Raises:
            PromptError: a variable is empty or not set, or its name is invalid; the message names the text's place.
        """

        def filled(text: str, text_path: ValuePath) -> str:
            return self._fill_in(text, text_path, redactor) if ENV_REFERENCE.fullmatch(text) else text

        return map_texts(value, filled, path)

    def _fill_in(self, text: str, path: ValuePath, redactor: Redactor | None = None) -> str:
        """Return the text with environment variables filled in. The redactor masks their values from now on.

        Raises:
            PromptError: a variable is not set.
        """
        return insert_env(text, Place(self.document, path, PromptError), redactor, in_answers=True)


def split_prompt(text: str, name: str, folder: Path | None) -> tuple[Front, str, int]:
    """Return the front matter, the template below it, and the number of lines above the template.

    The second `---` line ends the front matter. (Azure's loader uses the last one, and so refuses files with further
    `---` lines.) A file without `---` lines has an empty front matter.

    Raises:
        PromptError: the front matter does not end or begins with a misspelt `---` line, it is no mapping or no YAML, or
            the file has no template.
    """
    # The text between the first two rules is the front matter.
    rules = _RULE.finditer(text)
    opening, closing = next(rules, None), next(rules, None)
    # If the first line looks like a misspelt `---`, the file is refused instead of taken for a template.
    if opening is None and text.strip() and not _NEARLY_RULE.match(text):
        return Front({}, Document(name, None, {}), folder), text, 0
    if opening is None or closing is None or closing.end() == len(text):
        raise PromptError(f"{name}, line 1: a prompt needs YAML between two `---` lines and a template below them")

    lines_above = text.count("\n", 0, opening.start()) + 1
    try:
        # Line feeds in front keep the line numbers of the file.
        document = parse_document("\n" * lines_above + text[opening.end() + 1 : closing.start()], name)
    except ConfigurationError as error:
        raise PromptError(str(error)) from None

    data = {} if document.value is None else document.value
    if not isinstance(data, dict):
        raise PromptError(f"{name}, line {lines_above + 1}: the front matter must be a mapping: write `key: value`")

    front = Front(data, document, folder)

    def inserted(text: str, path: ValuePath) -> JSON:
        """Return the content of the file if the text is only `${file:NAME}`, else the text."""
        match = _FILE_REFERENCE.match(text)
        return file_value(match[1], path, front) if match else text

    return front.with_texts(inserted), text[closing.end() + 1 :], text.count("\n", 0, closing.start()) + 1


def file_value(name: str, path: ValuePath, front: Front) -> JSON:
    """Return the content of a file of the prompt: data for JSON and YAML, text for any other file.

    Raises:
        PromptError: the file cannot be read; the message names the key at `path`, which refers to it.
    """
    try:
        content = read_referenced(front.folder, name, MAX_BYTES)
        suffix = Path(name).suffix.lower()
        if suffix in (".yaml", ".yml"):
            return parse_document(content, name).value
        return plain(not_too_deep(loads(content))) if suffix == ".json" else decode_text(content)
    except (ValueError, TypeError, ConfigurationError) as error:
        file = "" if name in str(error) else f"the file {name!r}: "
        raise front.error(path, f"{file}{error}") from None


def not_too_deep(value: JSON) -> JSON:
    """Return the value; raise ValueError if it is nested too deeply to be searched for secrets."""
    if is_deeper(value, MAX_DEPTH + 1):
        raise ValueError(f"lists and objects are nested more than {MAX_DEPTH} levels deep: flatten them")
    return value


def decode_text(content: bytes) -> str:
    """Decode a text file and change its line ends to line feeds.

    Raises:
        ValueError: the file is not UTF-8; the message says in which line.
    """
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8 (byte {error.start} of the file): save the file as UTF-8") from None


def refuse_secrets(front: Front, *path: str | int, references: bool = False) -> None:
    """Refuse secrets at this path and below it. With `references`, references to the environment are allowed.

    Raises:
        PromptError: a key for a secret has a value that is not allowed; the message does not show the value.
    """
    value = front.value(*path)
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            refuse_secrets(front, *path, key, references=references)
    elif isinstance(value, str) and value.strip() and SECRET_FIELD.search(str(path[-1])):
        if not references:
            target = "model.connection" if path[1] == "options" else "model.configuration"
            raise front.error(path, f"a secret is not allowed here: write it as ${{env:NAME}} in `{target}`")
        if not WHOLE_SECRET.match(value.strip()):
            raise front.error(path, WRITTEN_OUT)


_REPLY_PARAMETERS = ("stream", "stream_options", "n")
"""Parameters of the form and number of replies. They do not change the content of a reply."""


def request_parameters(front: Front, parameters: JSON, *path: str) -> dict[str, JSON]:
    """Return the parameters to send: all except `stream`, `stream_options` and `n`.

    `path` is the place of the parameters in the front matter. Without any parameters, the result is empty.

    Raises:
        PromptError: the parameters contain messages, or `n` is not a whole number of 1 or more.
    """
    parameters = object_or_empty(parameters)
    if "messages" in parameters:
        raise front.error((*path, "messages"), "the template writes the messages: leave the parameter `messages` out")

    number = parameters.get("n")
    if number is not None and (type(number) is not int or number < 1):
        raise front.error((*path, "n"), f"`n` must be a whole number of 1 or more, not {shown_value(number)}")
    return {key: value for key, value in parameters.items() if key not in _REPLY_PARAMETERS}


# -- settings of a judge: the section `judge:` (ignored by Azure's loader), or arguments of the judge


Kind: TypeAlias = Literal["score", "binary", "count"]
Combine: TypeAlias = Literal["mean", "majority"]
Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\S")]


class JudgeOutput(Written, frozen=True):
    """How a judge's answer becomes a metric. Values that are None are taken from the prompt.

    metric: the name of the metric, and the prefix of its result columns.
    score: the answer's key of the score: a number, true or false, or one of `labels`.
    reason: the answer's key of the reason.
    range: the lowest and highest score; a score outside the range is not a verdict.
    threshold: the score from which a row passes; by default the middle of the range.
    higher_is_better: if false, rows with scores up to the threshold pass.
    kind: "score", "binary" (0 or 1) or "count".
    labels: the score of each word, if the answer's score is a word.
    """

    metric: Name | None = None
    score: Name | None = None
    reason: Name | None = None
    range: tuple[float, float] | None = None
    threshold: float | None = None
    higher_is_better: bool | None = None
    kind: Kind | None = None
    labels: Annotated[dict[Name, float], msgspec.Meta(min_length=1)] | None = None


class JudgeSettings(JudgeOutput, frozen=True):
    """A `JudgeOutput` with the number of samples for each row, how they are combined, and the responses it judges."""

    samples: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    combine: Combine | None = None
    applies_to: Literal["text", "calls"] | None = None

    def __post_init__(self) -> None:
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError("`range` must have two numbers, the lower one first")


def read_judge(front: Front) -> dict[str, JSON]:
    """Check the `judge:` section and return it as written, without null values; empty if there is none.

    Raises:
        PromptError: a setting is unknown or invalid.
    """
    section: dict[str, JSON] = {key: value for key, value in front.mapping("judge").items() if value is not None}
    settings = read_as(section, JudgeSettings, front.document.where, error=PromptError, above="judge")

    # The name becomes the prefix of columns such as `politeness_score`. Only this section is checked, because a metric
    # that is named in Python may have any name.
    if settings.metric is not None and not settings.metric.isidentifier():
        problem = "the metric's name must consist of letters, digits and underscores, and not begin with a digit"
        raise front.error(("judge", "metric"), problem)

    return section


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a finite number within the range of floats. Booleans are not numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
