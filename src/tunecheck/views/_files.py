"""A page of results as files: Markdown for a pull request, and JUnit XML.

In Markdown, foreign text is in code spans, which disable all markup. In JUnit XML, each check is a test case and each
fact a property.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tunecheck._messages import clean, without_log_commands
from tunecheck.views._model import Chart, Sentence, Style, Table, Text, View, text_of, words_of

_MARKS: Mapping[Style, str] = {"good": "✅ ", "bad": "❌ ", "warn": "⚠️ "}
_OWN_DASH = re.compile(r"\A((?:[^\w\s-]+ )?)(?:- )?")  # a mark, then the dash of a list in plain text
_TICKS = re.compile(r"`+")
_ACTIVE = re.compile(r"([\\`*_{}\[\]<>#|@&~])")
_LONGEST = 2_000


def code(value: object, most: int = _LONGEST) -> str:
    """Return a value as a code span on one line, safe in tables: markup, links and mentions in it have no effect."""
    text = clean(value, most)
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if longest or not text else ""
    return f"{fence}{padding}{text}{padding}{fence}".replace("|", "\\|")


def markdown(view: View) -> str:
    """Return a page as Markdown: the title, the parts and the notes."""
    notes = ["\n".join(f"- {code(note, 400)}" for note in view.notes)] if view.notes else []
    parts = ["\n".join(_part(part)) for part in view.parts if not isinstance(part, Chart)]
    return without_log_commands("\n\n".join([f"### {_write_sentence(view.title)}", *parts, *notes]) + "\n")


def _write_sentence(sentence: Sentence) -> str:
    return "".join(_piece(each.text, each.style, foreign=each.foreign) for each in words_of(sentence)).strip()


def _piece(text: str, style: Style, *, foreign: bool) -> str:
    if not text.strip():
        return " " if text else ""
    start, end = (" " if text[:1] == " " else ""), (" " if text[-1:] == " " else "")
    said = code(text) if foreign else _ACTIVE.sub(r"\\\1", clean(text, _LONGEST))
    bold = "**" if style in ("strong", "warn") and not foreign else ""
    return f"{start}{_MARKS.get(style, '')}{bold}{said}{bold}{end}"


def _part(part: Text | Table) -> Iterator[str]:
    if isinstance(part, Table):
        yield from _table(part)
        return
    lines = map(_write_sentence, part.lines)
    yield from (_OWN_DASH.sub(r"- \1", line) if len(part.lines) > 1 else line for line in lines)


def _table(table: Table) -> Iterator[str]:
    title = _write_sentence(table.title)
    if table.folded:
        yield f"<details><summary>{title}</summary>\n"
    elif title:
        yield f"{title}\n"
    count = max(map(len, [table.heads, *table.rows]))
    yield _row(table.heads, count)
    yield "|" + "|".join("---" if table.alignment(at) == "left" else "--:" for at in range(count)) + "|"
    yield from (_row(cells, count) for cells in table.rows)
    if text_of(table.below):
        yield f"\n{_write_sentence(table.below)}"
    if table.folded:
        yield "\n</details>"


def _row(cells: Sequence[Sentence], count: int) -> str:
    return f"| {' | '.join([*map(_write_sentence, cells), *[''] * (count - len(cells))])} |"


# Characters that XML 1.0 does not allow, not even escaped (section 2.2, Char).
_NO_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(view: View, seconds: float) -> bytes:
    """Return a page's checks as one test suite; each test has the duration of the whole run."""
    from xml.etree import ElementTree

    ended = Counter(check.ended for check in view.checks)
    counts = {
        "tests": str(len(view.checks)),
        "failures": str(ended["failure"]),
        "errors": str(ended["error"]),
        "skipped": str(ended["skipped"]),
        "time": f"{seconds:.3f}",
    }
    root = ElementTree.Element("testsuites", {"name": "tunecheck", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _text(text_of(view.title)), **counts})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in view.facts.items():
        ElementTree.SubElement(properties, "property", {"name": _text(name), "value": _text(value)})
    for check in view.checks:
        about = {"classname": check.group, "name": _text(check.name), "time": counts["time"]}
        case = ElementTree.SubElement(suite, "testcase", about)
        if check.ended is None:
            ElementTree.SubElement(case, "system-out").text = _text(check.found)
        else:
            kind = {} if check.ended == "skipped" else {"type": check.group}
            ElementTree.SubElement(case, check.ended, {"message": _text(check.found)} | kind).text = _text(check.found)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _text(value: str) -> str:
    text = without_log_commands(_NO_XML.sub("", value.replace("\r\n", "\n").replace("\r", "\n")))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
