"""A prompt: the content of a `.prompty` file, which renders to chat messages.

Its images are written `![description](link)`. A link is an address, image data, or a file of the prompt.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import msgspec

from tunecheck._errors import PromptError, PromptRenderError
from tunecheck._json import JSON, content_hash, plain
from tunecheck._messages import did_you_mean
from tunecheck.endpoints._masking import Redactor, trace
from tunecheck.prompts._front_matter import Front, not_too_deep, read_referenced

if TYPE_CHECKING:
    from tunecheck.prompts._template import Inserted, Template

MAX_IMAGE_BYTES = 20 << 20
"""The largest image that OpenAI accepts."""

_TYPES: Mapping[str, str] = MappingProxyType({
    ".apng": "image/apng", ".avif": "image/avif", ".bmp": "image/bmp", ".gif": "image/gif", ".heic": "image/heic",
    ".heif": "image/heif", ".ico": "image/vnd.microsoft.icon", ".jpeg": "image/jpeg", ".jpg": "image/jpeg",
    ".png": "image/png", ".svg": "image/svg+xml", ".tif": "image/tiff", ".tiff": "image/tiff", ".webp": "image/webp",
})  # fmt: skip

# `![description](link)`. No image begins within another, so that many `![` take linear time.
_IMAGE = re.compile(r"!\[(?:(?!!\[)[^\]])*+\]\(((?:(?!!\[)[^)\n])*+)\)")
# An image's address, without spaces and quotes: https://example.com/cat.png
_ADDRESS = re.compile(r"https?://[^\s<>\"]+\Z", re.IGNORECASE)
# Image data in base64: data:image/png;base64,iVBORw0KGgo=
_DATA = re.compile(r"data:image/[a-z0-9.+*-]+;base64,[A-Za-z0-9+/=_-]+\Z", re.IGNORECASE)
# Any data in base64, which only the template itself may contain: data:application/octet-stream;base64,…
_OWN_DATA = re.compile(r"data:[^;,\s]*;base64,", re.IGNORECASE)
# prompt flow's reference to a file: data:image/png;path:cat.png
_DATA_PATH = re.compile(r"data:([^;,]*);path:(.*)\Z", re.IGNORECASE | re.DOTALL)


def find_images(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and link of every `![description](link)`; the link is on one line.

    "See ![a cat](cat.png)." gives (4, 21, "cat.png").
    """
    for image in _IMAGE.finditer(text):
        yield *image.span(), image[1]


def is_url(link: str) -> bool:
    """Return whether a value may be an image: an http(s) address, or image data."""
    return bool(_ADDRESS.match(link) or _DATA.match(link))


def read_images(template: str, folder: Path | None) -> dict[str, str]:
    """Read the image files that a template links to from the prompt's folder. Return them as data URLs by link.

    Raises:
        ValueError: a file cannot be read or is too large.
    """
    urls: dict[str, str] = {}
    for link in {link.strip() for _, _, link in find_images(template)}:
        if (file := _file_of(link)) is not None:
            name, kind = file
            content = base64.b64encode(read_referenced(folder, name, MAX_IMAGE_BYTES)).decode()
            urls[link] = f"data:{kind};base64,{content}"
    return urls


def image_url(link: str, files: Mapping[str, str], *, own: bool) -> str | None:
    """Return the URL that the model gets for a link, or None if the link is no image.

    `files` are the image files of the template, as data URLs by link. `own` is True if the template itself contains
    the link, False if a value does:

        https://…, data:image/png;base64,…                the link itself
        data:application/octet-stream;base64,…, if own    the link itself
        cat.png, data:image/png;path:cat.png, if own      the content of the file, as a data URL
        any other link                                    None: it stays text
    """
    link = link.strip()
    if is_url(link) or (own and _OWN_DATA.match(link)):
        return link
    # A value must not name files: it comes from data or a model.
    return files.get(link) if own else None


def _file_of(link: str) -> tuple[str, str] | None:
    """Return name and type of the image file that a link names; None if it names no file.

    `data:image/png;path:x` names the file x; other links need the suffix of an image.
    """
    data = _DATA_PATH.match(link)
    if data is not None:
        return data.group(2).strip(), data.group(1).strip() or "image/*"

    suffix = Path(link).suffix.lower()
    return (link, _TYPES[suffix]) if suffix in _TYPES and ":" not in link else None


Dialect = Literal["prompty1", "prompty2"]


class PromptFile(msgspec.Struct, frozen=True):
    """The parts of a `.prompty` file. `source` is its path as given; `reload` makes the prompt again."""

    source: str
    text: str
    front: Front
    body: str
    lines_above: int
    reload: Callable[[str, str, Path | None], Prompt]

    @property
    def stem(self) -> str:
        """The file's name without suffix, used as the prompt's name if it has none."""
        return Path(self.source).stem

    def where(self, line: int) -> str:
        """Return the place of a line of the body for errors."""
        return f"{self.source}, line {self.lines_above + line}"


class PromptInput(msgspec.Struct, frozen=True):
    """One input of a prompt.

    `type` is the text in the file, which is not checked (nor does Azure check it). `default` is used if `required` is
    false. An input that is not required and has no default may be left out. `insert` converts a value that is not text,
    such as messages or an image.
    """

    name: str
    type: str | None = None
    default: JSON = None
    required: bool = True
    insert: Callable[[JSON], Inserted] | None = None


@dataclass(frozen=True, repr=False, eq=False)
class Prompt:
    """The content of a `.prompty` file.

    inputs: inputs by name, in the file's order, then inputs that only the sample or the template names.
    outputs: the JSON schema of each declared property.
    parameters: the parameters of a request besides the messages.
    written_parameters: the same with unresolved references to the environment; `secrets` masks their values.
    notes: remarks for the user.
    extra: the checked `judge:` section, and `samples` if a prompt with `response: all` asks for `n` replies.
    digest: a hash of everything that decides what the prompt renders.

    `model_definition()` returns the model configuration as a definition for `tunecheck.endpoints.load_endpoint`, or
    None if the prompt has no configuration. References to the environment stay unresolved. It raises PromptError if the
    configuration is of an unknown type or incomplete.
    """

    name: str
    dialect: Dialect
    inputs: Mapping[str, PromptInput]
    outputs: Mapping[str, Mapping[str, JSON]]
    parameters: Mapping[str, JSON]
    written_parameters: Mapping[str, JSON]
    secrets: Redactor
    notes: Sequence[str]
    extra: Mapping[str, JSON]
    digest: str
    model_definition: Callable[[], dict[str, JSON] | None]
    _file: PromptFile
    _template: Template

    @property
    def path(self) -> Path:
        """The path of the file."""
        return Path(self.source)

    @property
    def source(self) -> str:
        """The path of the file as it was given, for errors."""
        return self._file.source

    @property
    def written_whole(self) -> frozenset[str]:
        """The names of the text inputs that the template only writes (`{{ name }}`) or tests (`{% if name %}`)."""
        texts = {name for name, item in self.inputs.items() if item.insert is None}
        return frozenset(texts) - self._template.used

    def render(self, values: Mapping[str, object]) -> list[dict[str, JSON]]:
        """Render the chat messages, in OpenAI's form, for these values of the inputs.

        Values are plain data: text, numbers, lists and mappings. A value is always text inside one message, whatever it
        contains. But a template can make messages from a list of messages, `[{"role": "user", "content": "Hi"}, …]`,
        by writing `{{ item.role }}:` on a separate line.

        Raises:
            PromptError: there is no input for a value, or a required input has no value.
            PromptRenderError: the template fails on these values.
        """
        return self._template.render(self._bound(values))

    def _bound(self, values: Mapping[str, object]) -> dict[str, JSON]:
        """Return the value of each input for the template: the given one, or else the default.

        If the template itself handles a missing input, no default is used and the input is left out.

        Raises:
            PromptError: there is no input for a value, or a required input has no value.
            PromptRenderError: a value is not plain data, or is not of its input's kind.
        """
        for name in values:
            if name not in self.inputs:
                raise PromptError(f"{self.source}: the prompt has no input {name!r}{did_you_mean(name, self.inputs)}")

        missing = [name for name, item in self.inputs.items() if item.required and name not in values]
        if missing:
            raise PromptError(f"{self.source}: no value is given for {', '.join(missing)}: pass a value for each input")

        bound: dict[str, JSON] = {}
        for name, item in self.inputs.items():
            # The template tests the name itself, with `default(…)` or `is defined`, so it stays undefined.
            if name not in values and self._template.may_lack(name):
                continue
            try:
                value = plain(values[name], path=name) if name in values else item.default
                bound[name] = value if item.insert is None else item.insert(value)
            except TypeError as error:
                raise PromptRenderError(f"{self.source}: an input does not fit: {error}") from None
        return bound

    def __repr__(self) -> str:
        return f"Prompt({self.name!r}, inputs={list(self.inputs)!r}, digest={self.digest!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return self._file.reload, (self.source, self._file.text, self._file.front.folder)


def digest(
    dialect: Dialect, file: PromptFile, inputs: Mapping[str, PromptInput], images: Mapping[str, str], secrets: Redactor
) -> str:
    """Return a hash of everything that decides what the prompt renders; `images` are its image files by link.

    A secret default enters only as a short trace, so that the secret cannot be guessed from the hash.

    Raises:
        PromptError: a default is nested too deeply, such as one with a file inside lists.
    """
    input_parts: list[JSON] = []

    for item in inputs.values():
        try:
            default = secrets.answer(not_too_deep(item.default))
        except ValueError as error:
            raise file.front.error(("inputs", item.name), str(error)) from None

        # A masked default differs from the default itself.
        secret_trace = [] if default == item.default else [trace(item.default)]
        input_parts.append([item.name, item.required, default, *secret_trace])

    hashes = ((link, hashlib.blake2b(url.encode(), digest_size=16)) for link, url in sorted(images.items()))
    contents = [f"{link} {image_hash.hexdigest()}" for link, image_hash in hashes]
    return content_hash([dialect, file.body, input_parts, contents])


# -- model configurations of prompts and of Azure AI Evaluation as endpoint definitions

OPENAI_URL = "https://api.openai.com/v1"
"""The default address of OpenAI configurations."""

# The endpoint kinds of the definitions.
AZURE, OPENAI = "azure_openai", "openai"


def definition_of(
    kind: str,
    url: str,
    model: str,
    *,
    api_version: str | None = None,
    key: str | None = None,
    entra: bool = False,
    headers: Mapping[str, JSON] | None = None,
) -> dict[str, JSON]:
    """Return an endpoint definition of kind `AZURE` or `OPENAI`.

    It signs in with the key if there is one, else with Entra if `entra` is set, else not at all.
    """
    definition: dict[str, JSON] = {"kind": kind, "url": url, "deployment" if kind == AZURE else "model": model}

    if api_version:
        definition["api_version"] = api_version

    if key or entra:
        definition["auth"] = {"type": "key", "value": key} if key else {"type": "entra"}

    if headers:
        definition["headers"] = dict(headers)
    return definition
