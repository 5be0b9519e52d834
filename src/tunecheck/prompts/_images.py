"""Images in a prompt: `![description](link)`. The link is an address, image data, or a file of the prompt."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tunecheck.prompts._front_matter import PromptFolder

MAX_IMAGE_BYTES = 20 << 20
"""The largest image that OpenAI accepts."""

_TYPES: Mapping[str, str] = MappingProxyType({
    ".apng": "image/apng", ".avif": "image/avif", ".bmp": "image/bmp", ".gif": "image/gif", ".heic": "image/heic",
    ".heif": "image/heif", ".ico": "image/vnd.microsoft.icon", ".jpeg": "image/jpeg", ".jpg": "image/jpeg",
    ".png": "image/png", ".svg": "image/svg+xml", ".tif": "image/tiff", ".tiff": "image/tiff", ".webp": "image/webp",
})  # fmt: skip

_ADDRESS = re.compile(r"https?://[^\s<>\"]+\Z", re.IGNORECASE)
_DATA = re.compile(r"data:image/[a-z0-9.+*-]+;base64,[A-Za-z0-9+/=_-]+\Z", re.IGNORECASE)
_OWN_DATA = re.compile(r"data:[^;,\s]*;base64,", re.IGNORECASE)
_DATA_PATH = re.compile(r"data:([^;,]*);path:(.*)\Z", re.IGNORECASE | re.DOTALL)


def find_images(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and link of every `![…](…)`, in linear time."""
    start, close, line_end = text.find("!["), -1, -1
    while start >= 0:
        middle = text.find("]", start + 2)
        if middle < 0:
            return
        after = middle + 1
        if text.startswith("(", after):
            close = close if close > after else _find(text, ")", after)
            line_end = line_end if line_end > after else _find(text, "\n", after)
            if close < min(line_end, len(text)):
                after = close + 1
                yield start, after, text[middle + 2 : close]
        start = text.find("![", after)


def _find(text: str, sign: str, start: int) -> int:
    position = text.find(sign, start)
    return position if position >= 0 else len(text)


def is_url(link: str) -> bool:
    """Return whether a value may be an image: an http(s) address, or image data."""
    return bool(_ADDRESS.match(link) or _DATA.match(link))


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """The image files of a template as data URLs by link, read when the prompt is loaded."""

    urls: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str], folder: PromptFolder) -> ImageFiles:
        links = {link.strip() for text in texts for _, _, link in find_images(text)}
        files = {link: file for link in links if (file := _file_of(link)) is not None}
        urls: dict[str, str] = {}
        for link, (name, kind) in files.items():
            content = base64.b64encode(folder.read(name, MAX_IMAGE_BYTES)).decode()
            urls[link] = f"data:{kind};base64,{content}"
        return cls(urls)

    def url(self, link: str, *, own: bool) -> str | None:
        """Return the URL for the model, or None if the link is no image. `own`: the template contains the link."""
        link = link.strip()
        if is_url(link) or (own and _OWN_DATA.match(link)):
            return link
        return self.urls.get(link) if own else None

    def digest(self) -> list[str]:
        return [
            f"{link} {hashlib.blake2b(url.encode(), digest_size=16).hexdigest()}"
            for link, url in sorted(self.urls.items())
        ]


def _file_of(link: str) -> tuple[str, str] | None:
    """Return the name and type of a linked file (`data:image/png;path:x`, or an image suffix), or None."""
    data = _DATA_PATH.match(link)
    if data is not None:
        return data.group(2).strip(), data.group(1).strip() or "image/*"
    suffix = Path(link).suffix.lower()
    return (link, _TYPES[suffix]) if suffix in _TYPES and ":" not in link else None
