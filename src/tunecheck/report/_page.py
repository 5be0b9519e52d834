"""Build the page: one HTML file that loads nothing and contains its style, its script and its data.

A run may contain hostile text in model output, data or a server's errors. The page never interprets it as markup. Data
is in `<script type="application/json">`, which browsers never run, with every `<` escaped, or packed in base64. The
script shows it as text. A content security policy forbids loads, other scripts, handlers in attributes, and
(`trusted-types`) markup made from text.
"""

import base64
import hashlib
import html
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from tunecheck import plugins
from tunecheck._json import JSON, dumps

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

    def __init__(self, scripts: Iterable[str], styles: Iterable[str]) -> None:
        """Join scripts and styles, and allow only these two by hash in the content security policy."""
        self._style = "\n".join(styles)
        self._script = '"use strict";\n(() => {\n' + "\n".join(scripts) + "\n})();\n"
        self.policy = "; ".join(
            (
                "default-src 'none'",
                f"script-src {_hash(self._script)}",
                f"style-src {_hash(self._style)}",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
            )
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
        return f"<script>{self._script}</script>\n</body>\n</html>\n"


_UNSAFE = re.compile(r"[<\x7f-\x9f\u2028\u2029]")
"""Characters that a browser or a terminal could interpret; JSON escapes other control characters."""


def embed_json(name: str, text: str) -> str:
    """Return JSON text as a data element of the page; no text in it can run as code or end the element."""
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
    return files("tunecheck.report").joinpath("browser", name).read_text("utf-8")


@cache
def page(kind: str) -> Page:
    """Return the page of a run, or of the list of runs."""
    panels = plugins.panels().values() if kind == REPORT else ()
    *scripts, last = map(_read, _SCRIPTS[kind])  # the last script starts drawing
    return Page([*scripts, *(each.script for each in panels), last], [_read(_STYLE), *(each.style for each in panels)])
