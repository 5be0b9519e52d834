"""A page of results as text: Markdown for a pull request, JUnit XML, and HTML for notebooks.

In Markdown, foreign text is in code spans, which disable all markup. In JUnit XML, each check is a test case. For
example, three formats of one page, shortened:

    ### `val-iteration-7`                                           markdown
    - ✅ gate met
    - `match` passed 31 of 46 rows

    <testsuite name="val-iteration-7" tests="1" failures="0">       junit
      <testcase classname="tunecheck.gates" name="match &gt;= 0.6">

    <div class="tex2jax_ignore mathjax_ignore"><p>gate met</p>      html
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from tunecheck._messages import clean, without_log_commands
from tunecheck.views._model import Chart, Interval, Part, Sentence, Style, Table, Text, View, Words, text_of, words_of

_MARKS: Mapping[Style, str] = {"good": "✅ ", "bad": "❌ ", "warn": "⚠️ "}
_OWN_DASH = re.compile(r"\A((?:[^\w\s*-]+ )?(?:\*\*)?)(?:- )?")
"""The beginning of a Markdown line: a mark, `**` and the dash of a list, such as `⚠️ **- `.

The dash is dropped, because the line becomes `- ⚠️ **…`. The beginning may be empty."""
_TICKS = re.compile(r"`+")
"""Backticks in a text. A code span around it needs one more of them on each side."""
_ACTIVE = re.compile(r"([\\`*_{}\[\]<>#|@&~])")
"""Characters with a meaning in Markdown or on GitHub, such as `*` in `a*b*` and `@` in a mention; each gets a `\\`."""
_LONGEST = 2_000
"""The most characters of one piece of text."""


def code(value: object, most: int = _LONGEST) -> str:
    """Return a value, cut at `most` characters, as a Markdown code span on one line; markup in it has no effect.

    A text with one backtick is put between two on each side, and so on. A `|` would end a table's cell even inside a
    code span, so it is escaped.
    """
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
    """Return a sentence as Markdown."""
    return "".join(map(_write_words, words_of(sentence))).strip()


def _write_words(words: Words) -> str:
    """Return a piece of a sentence as Markdown: a mark for its style, bold if strong, a code span if foreign."""
    text = words.text
    if not text.strip():
        return " " if text else ""

    # Blanks inside of `**` or a code span would break them: they are written outside.
    start, end = (" " if text[:1] == " " else ""), (" " if text[-1:] == " " else "")

    markdown = code(text) if words.foreign else _ACTIVE.sub(r"\\\1", clean(text, _LONGEST))
    bold = "**" if words.style in ("strong", "warn") and not words.foreign else ""

    return f"{start}{_MARKS.get(words.style, '')}{bold}{markdown}{bold}{end}"


def _part(part: Text | Table) -> Iterator[str]:
    """Yield the lines of a paragraph or table; several lines of a paragraph become a list."""
    if isinstance(part, Table):
        yield from _table(part)
        return

    # Each line of a list gets one dash at its beginning, in place of its own one if it has one.
    lines = map(_write_sentence, part.lines)
    yield from (_OWN_DASH.sub(r"- \1", line) if len(part.lines) > 1 else line for line in lines)


def _table(table: Table) -> Iterator[str]:
    """Yield a table's lines in Markdown; a folded table is wrapped in `<details>`."""
    title = _write_sentence(table.title)

    if table.folded:
        yield f"<details><summary>{title}</summary>\n"
    elif title:
        yield f"{title}\n"

    count = max(map(len, [table.heads, *table.rows]))
    yield _row(table.heads, count)
    yield "|" + "|".join("---" if table.alignment(column) == "left" else "--:" for column in range(count)) + "|"
    yield from (_row(cells, count) for cells in table.rows)

    if text_of(table.below):
        yield f"\n{_write_sentence(table.below)}"
    if table.folded:
        yield "\n</details>"


def _row(cells: Sequence[Sentence], count: int) -> str:
    """Return a row of a Markdown table, filled up with empty cells."""
    return f"| {' | '.join([*map(_write_sentence, cells), *[''] * (count - len(cells))])} |"


# Characters that XML 1.0 does not allow, not even escaped (section 2.2, Char), and other control characters.
_NO_XML = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(view: View, seconds: float) -> bytes:
    """Return a page's checks as JUnit XML: one suite, in which each test has the duration of the whole run."""
    from xml.etree import ElementTree

    ended = Counter(check.ended for check in view.checks)
    counts = {"tests": str(len(view.checks)), "failures": str(ended["failure"]), "errors": str(ended["error"])}
    counts |= {"skipped": str(ended["skipped"]), "time": f"{seconds:.3f}"}

    root = ElementTree.Element("testsuites", {"name": "tunecheck", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _text(text_of(view.title)), **counts})

    for check in view.checks:
        about = {"classname": check.group, "name": _text(check.name), "time": counts["time"]}
        case = ElementTree.SubElement(suite, "testcase", about)
        if check.ended is None:
            ElementTree.SubElement(case, "system-out").text = _text(check.found)
        else:
            # In JUnit, a skipped test has no type.
            kind = {} if check.ended == "skipped" else {"type": check.group}
            ElementTree.SubElement(case, check.ended, {"message": _text(check.found)} | kind).text = _text(check.found)

    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _text(value: str) -> str:
    """Return a text for XML: without invalid characters and log commands, cut at _LONGEST characters."""
    text = without_log_commands(_NO_XML.sub("", value.replace("\r\n", "\n").replace("\r", "\n")))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


# -- HTML for notebooks; all text is escaped


_MOST_INTERVALS, _MOST_ROWS = 30, 60
"""The most lines of a chart and of a table in a notebook."""
_LINE, _LABELS, _WIDTH = 24, 220, 640
"""The height of a chart's line, the width of its labels and of the whole chart, in pixels."""
_STYLE = "text-align:left;padding:2px 10px 2px 0"


def html(view: View) -> str:
    """Return the parts and the notes of a page in one `<div>`, in which notebooks typeset no formulas between `$`."""
    parts = "".join(map(_html_part, [*view.parts, Text([f"note: {note}" for note in view.notes])]))
    return f'<div class="tex2jax_ignore mathjax_ignore">{parts}</div>'


def _html_part(part: Part) -> str:
    """Return a part as HTML."""
    if isinstance(part, Chart):
        return _chart(part.intervals)
    if isinstance(part, Table):
        return _html_table(part)
    return "".join(f"<p>{_escape_sentence(line, 600)}</p>" for line in part.lines)


def _escape_sentence(sentence: Sentence, most: int = 200) -> str:
    """Return a sentence as HTML without styles, cut at `most` characters."""
    from html import escape  # imported here because it loads a table of all entity names

    return escape(clean(text_of(sentence), most))


def _html_table(table: Table) -> str:
    """Return a table as HTML, with at most _MOST_ROWS rows."""

    def line(tag: str, cells: Sequence[Sentence]) -> str:
        """Return one row of cells, as `td` or `th`."""
        return "<tr>" + "".join(f'<{tag} style="{_STYLE}">{_escape_sentence(cell)}</{tag}>' for cell in cells) + "</tr>"

    title, below = (f"<p>{_escape_sentence(text)}</p>" if text else "" for text in (table.title, table.below))
    body = "".join(line("td", row) for row in table.rows[:_MOST_ROWS])
    hidden = len(table.rows) - _MOST_ROWS
    more = f"<p>and {hidden:,} more</p>" if hidden > 0 else ""

    return f"{title}<table><thead>{line('th', table.heads)}</thead><tbody>{body}</tbody></table>{more}{below}"


def _chart(intervals: Sequence[Interval]) -> str:
    """Return an SVG of at most 30 intervals on one axis with a line at 0; "" if no interval has a value."""
    drawn = [interval for interval in intervals if interval.value is not None][:_MOST_INTERVALS]
    if not drawn:
        return ""

    # The axis also contains 0, where a line is drawn.
    values = [0.0, *(value for shown in drawn for value in (shown.value, shown.low, shown.high) if value is not None)]
    low, high = min(values), max(values)
    scale = (_WIDTH - _LABELS - 20) / ((high - low) or 1.0)  # pixels per unit; all values may be 0

    def x_of(value: float) -> str:
        return f"{_LABELS + 10 + (value - low) * scale:.1f}"

    height = _LINE * len(drawn) + 4
    lines = "".join(_lines(drawn, x_of))
    zero = f'<line x1="{x_of(0)}" x2="{x_of(0)}" y1="0" y2="{height}" stroke="currentColor" stroke-opacity="0.4"/>'

    return (
        f'<svg role="img" aria-label="values and intervals, as in the table" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" style="max-width:100%" font-size="13">{zero}{lines}</svg>'
    )


def _lines(intervals: Sequence[Interval], x_of: Callable[[float], str]) -> Iterator[str]:
    """Yield each interval's label, line and dot in SVG; `x_of` converts a value to an x-coordinate."""
    for number, interval in enumerate(intervals):
        y = _LINE * number + _LINE // 2 + 2
        yield f'<text x="0" y="{y + 4}" fill="currentColor">{_escape_sentence(interval.label, 32)}</text>'

        if interval.low is not None and interval.high is not None:
            ends = f'x1="{x_of(interval.low)}" x2="{x_of(interval.high)}" y1="{y}" y2="{y}"'
            yield f'<line {ends} stroke="#3b7dd8" stroke-width="3"/>'
        if interval.value is not None:
            yield f'<circle cx="{x_of(interval.value)}" cy="{y}" r="5" fill="#3b7dd8"/>'
