"""From a rendered template of the older dialect to chat messages, as Azure's loader splits it.

A role header is `system:`, `user:`, `assistant:` or `function:` on a line of its own, in any case, with a `#` before it
or not. Azure's loader looks for headers in the rendered text; here they are looked for in the text without the values,
and in time that grows with the text only. Also read is prompt flow's `tool:`, where `tool_call_id:` follows. Unlike
Azure's loader, this one takes an image for one where nothing else stands in its message.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tunecheck._json import JSON
from tunecheck.prompts._fragments import Skeleton
from tunecheck.prompts._images import ImageFiles, find_images

_ROLES = ("system", "user", "assistant", "function")

_HEADER = re.compile(r"(system|user|assistant|function|tool)\s*+:(\s*+)", re.IGNORECASE)
_NAMED = re.compile(r"name\s*+:(?=[^\S\n]*+\n)\s*+(\S++)\s*+#{0,2}+\s*+content\s*+:(.*)", re.DOTALL)
_TOOL = re.compile(
    r"\s*+#{0,2}+\s*+tool_call_id\s*+:(?=[^\S\n]*+\n)\s*+(\S++)\s*+#{0,2}+\s*+content\s*+:(.*)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class _Header:
    role: str
    start: int
    end: int


def may_have_roles(texts: Iterable[str]) -> bool:
    """Whether a template with these texts of its own may have a role: a header, or the word that one is made with."""
    return any(
        text.strip().lower() in _ROLES or any("\n" in match.group(2) for match in _HEADER.finditer(text))
        for text in texts
    )


@dataclass(frozen=True, slots=True)
class Splitter:
    """Splits into messages; `images` are the files that the template shows."""

    images: ImageFiles

    def __call__(self, skeleton: Skeleton) -> list[dict[str, JSON]]:
        """The messages.

        Raises:
            ValueError: the text does not begin with a role, or a function message lacks its name.
        """
        text = skeleton.text
        headers = list(_headers(text))
        before = skeleton.filled(text[: headers[0].start] if headers else text).strip()
        if before:
            shown = " ".join(before.split())[:40]
            raise ValueError(
                f"the prompt must begin with a role, as `system:` on a line of its own, not with {shown!r}"
            )
        ends = [header.start for header in headers[1:]] + [len(text)]
        return [
            self._message(header.role, text[header.end : end], skeleton)
            for header, end in zip(headers, ends, strict=True)
        ]

    def _message(self, role: str, chunk: str, skeleton: Skeleton) -> dict[str, JSON]:
        if role == "tool":
            call = _TOOL.match(chunk)
            assert call is not None  # else it would be no header
            content = self._content(call.group(2), skeleton)
            return {"role": role, "tool_call_id": skeleton.filled(call.group(1)), "content": content}
        named = _NAMED.search(chunk)
        if named is not None:
            content = self._content(named.group(2), skeleton)
            return {"role": role, "name": skeleton.filled(named.group(1)), "content": content}
        if role == "function":
            raise ValueError("a `function:` message has `name:`, the name, `content:` and the content, each on a line")
        return {"role": role, "content": self._content(chunk, skeleton)}

    def _content(self, chunk: str, skeleton: Skeleton) -> JSON:
        parts: list[JSON] = []
        position, seen = 0, False
        for start, end, link in find_images(chunk):
            url = self.images.url(skeleton.filled(link), own=skeleton.is_own(link))
            if url is not None:
                parts += _text_part(skeleton.filled(chunk[position:start]))
                parts.append({"type": "image_url", "image_url": {"url": url, "detail": "auto"}})
                position, seen = end, True
        if not seen:
            return skeleton.filled(chunk).strip()
        return [*parts, *_text_part(skeleton.filled(chunk[position:]))]


@functools.lru_cache(maxsize=64)
def _headers(text: str) -> tuple[_Header, ...]:
    """The headers in a skeleton. Those of a prompt's rows differ only where its template branches."""
    return tuple(_find_headers(text))


def _find_headers(text: str) -> Iterator[_Header]:
    after = 0
    for match in _HEADER.finditer(text):
        start = _line_start(text, match.start(), after)
        if start is None or "\n" not in match.group(2):
            continue
        role = match.group(1).lower()
        if role == "tool" and not _TOOL.match(text, match.end()):
            continue
        after = match.start(2) + match.group(2).rindex("\n") + 1
        yield _Header(role, start, after)


def _line_start(text: str, position: int, after: int) -> int | None:
    """Where the header begins: nothing but blanks and one `#` stand between the start of a line and the role."""
    blank = _before_blanks(text, position, after)
    if blank > after and text[blank - 1] == "#":
        mark = _before_blanks(text, blank - 1, after)
        if _opens_line(text, mark, blank - 1):
            return mark
    return blank if _opens_line(text, blank, position) else None


def _before_blanks(text: str, position: int, after: int) -> int:
    while position > after and text[position - 1].isspace():
        position -= 1
    return position


def _opens_line(text: str, start: int, end: int) -> bool:
    return start == 0 or text[start - 1] == "\n" or "\n" in text[start:end]


def _text_part(text: str) -> list[JSON]:
    stripped = text.strip()
    return [{"type": "text", "text": stripped}] if stripped else []
