"""Build the page: one HTML file that loads nothing and contains its style, its script and its data.

Values become text of limited length. Records are packed into compressed blocks, which the page unpacks one by one: JSON
lists, compressed with raw deflate, in base64. An element such as `<script type="application/json" id="rows-3">` holds
the fourth block of rows.

A run may contain hostile text in model output, data or a server's errors. The page never interprets it as markup. Data
is in `<script type="application/json">`, which browsers never run, with every `<` escaped, or packed in base64. The
script shows it as text. A content security policy forbids loads, other scripts, handlers in attributes, and
(`trusted-types`) markup made from text.
"""

import base64
import contextlib
import hashlib
import html
import re
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import blake2b
from importlib.resources import files

import msgspec

from tunecheck import plugins
from tunecheck._json import JSON, dumps

# -- texts and blocks of data

BLOCK_BYTES = 1 << 18
"""Approximate JSON per block: unpacked in a few milliseconds, and compressed nearly as well as one whole."""

_LEVEL = 6  # zlib's default: between speed and size


def compress_text(text: bytes) -> str:
    """Compress text with raw deflate and encode it in base64, which is safe anywhere in HTML."""
    # -15: raw deflate, without zlib's header, as browsers unpack it with `deflate-raw`.
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    return base64.b64encode(compressor.compress(text) + compressor.flush()).decode("ascii")


class Blocks:
    """Packs records in their order; each full block is passed to `write` with its name.

    With `starts`, the page finds the block of a record without unpacking the blocks before it.
    """

    def __init__(self, name: str, write: Callable[[str, str], None]) -> None:
        """Start without records; `write` gets the name and the packed text of each full block."""
        self._name = name
        self._write = write
        self._waiting: list[bytes] = []
        self._size = 0
        self._known: dict[bytes, int] = {}
        self.starts: list[int] = []
        """The number of each block's first record."""
        self.count = 0

    def add(self, record: JSON) -> int:
        """Add a record and return its number."""
        text = dumps(record)
        if not self._waiting:
            self.starts.append(self.count)

        self._waiting.append(text)
        self._size += len(text)
        self.count += 1

        if self._size >= BLOCK_BYTES:
            self.flush()
        return self.count - 1

    def add_once(self, text: str) -> int:
        """Return the number of a text that many rows have, such as tool definitions; add it if it is new."""
        # Hashes instead of texts: a run may have many long texts, and only their numbers are needed again.
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest not in self._known:
            self._known[digest] = self.add(text)
        return self._known[digest]

    def flush(self) -> None:
        """Write the records that are not written yet."""
        if self._waiting:
            block = b"[" + b",".join(self._waiting) + b"]"
            self._write(f"{self._name}-{len(self.starts) - 1}", compress_text(block))
            self._waiting.clear()
            self._size = 0


LONGEST = 20_000
"""The most characters of one text on a page; the results file has the whole text."""

_UNREADABLE = "(nested too deeply to be shown)"


def cut(text: str, most: int = LONGEST) -> str:
    """Return a text of limited length; the middle of a longer text is replaced by the number of characters left out.

    The beginning has four fifths of the room, the end of the text one fifth.
    """
    if len(text) <= most:
        return text

    end = most // 5
    left_out = len(text) - most
    return f"{text[: most - end]}\n[… {left_out:,} characters left out here …]\n{text[len(text) - end :]}"


def line(text: str, most: int) -> str:
    """Return a text's beginning on one line, cut to `most` characters.

    Example: for 13 characters, "Book a table for two" becomes "Book a table…".
    """
    short = " ".join(text[: 2 * most].split())
    return short if len(short) <= most and len(text) <= 2 * most else f"{short[: most - 1]}…"


def as_text(value: JSON) -> str:
    """Return a text unchanged and any other value as JSON, indented if it is long."""
    return cut(value) if isinstance(value, str) else as_json(value, readable=True)


def as_json(value: JSON, *, readable: bool = False) -> str:
    """Return a value as JSON text of limited length; `readable` indents long lists and objects."""
    try:
        text = dumps(value)
    except (TypeError, ValueError, RecursionError):
        return _UNREADABLE

    if readable and len(text) > 80 and isinstance(value, (list, dict)):
        with contextlib.suppress(msgspec.DecodeError):  # an invalid character, or too deep: keep it on one line
            text = msgspec.json.format(text, indent=2)

    return cut(text.decode("utf-8", "replace"))


# -- the page

REPORT, RUNS = "report", "runs"

_STYLE = "report.css"
_BASE = ("dom.js", "address.js", "unpack.js")
_SCRIPTS = {
    REPORT: (
        *(*_BASE, "charts.js", "summary.js", "trends.js", "changes.js", "panels.js"),
        *("rows.js", "filters.js", "table.js", "row.js", "main.js"),
    ),
    RUNS: (*_BASE, "trends.js", "runs.js"),
}


class Page:
    """The parts of a page before and after its data."""

    def __init__(self, scripts: Iterable[str], styles: Iterable[str], panels: Iterable[str] = ()) -> None:
        """Join scripts and styles, and allow only these by hash in the content security policy.

        Each script of `panels` stays an element of its own, so that an error in one of them does not stop the others.
        """
        self._style = "\n".join(styles)
        self._scripts = [f'"use strict";\n(() => {{\n{script}\n}})();\n' for script in ("\n".join(scripts), *panels)]

        # `img-src data:` is for the empty icon. All else that is not a hashed element is forbidden.
        self.policy = (
            f"default-src 'none'; script-src {' '.join(map(_hash, self._scripts))}; style-src {_hash(self._style)}; "
            "img-src data:; base-uri 'none'; form-action 'none'; "
            "require-trusted-types-for 'script'; trusted-types 'none'"
        )

    def start(self, title: str) -> str:
        """Return the page from the doctype to the data. `title` may hold any text."""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(self.policy)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
            f'<title>{html.escape(_encodable(title))}</title>\n<link rel="icon" href="data:,">\n'
            f"<style>{self._style}</style>\n</head>\n<body>\n"
            '<main id="page"><p class="loading">Reading the report …</p>'
            "<noscript><p>This report is drawn by its own script: please allow scripts for this file. "
            "It loads nothing.</p></noscript></main>\n"
        )

    def end(self) -> str:
        """Return the page from the end of the data to its end."""
        return "".join(f"<script>{script}</script>\n" for script in self._scripts) + "</body>\n</html>\n"


_UNSAFE = re.compile(r"[<\x7f-\x9f\u2028\u2029]")
"""Characters that a browser or a terminal could interpret; JSON escapes other control characters."""


def embed_json(name: str, text: str) -> str:
    """Return JSON text as a data element of the page; no text in it can run as code or end the element.

    Example: `</script>` in a model's answer becomes `\\u003c/script>`, which JSON reads as the same text.
    """
    safe = _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return f'<script type="application/json" id="{name}">{safe}</script>\n'


def as_data(value: JSON) -> str:
    """Return the JSON text of a value, for `embed_json`."""
    return _encodable(dumps(value).decode("utf-8", "replace"))


def _encodable(text: str) -> str:
    """Return the text with lone surrogates, which UTF-8 cannot encode, replaced by `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _hash(text: str) -> str:
    """Return a text's hash in the form of a content security policy."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@cache
def _read(name: str) -> str:
    """Return the text of a style or script of the page, cached."""
    return files("tunecheck.report").joinpath("browser", name).read_text("utf-8")


@cache
def page(kind: str) -> Page:
    """Return the page of a run (`kind` REPORT), or of the list of runs (RUNS), without data."""
    panels = plugins.load_by_name("panels").values() if kind == REPORT else ()
    styles = [_read(_STYLE), *(panel.style for panel in panels)]
    return Page(map(_read, _SCRIPTS[kind]), styles, [panel.script for panel in panels])
