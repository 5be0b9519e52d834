"""Count the sentences that show a mark of riddle English, in docstrings, comments and Markdown.

`python scripts/measure_sentences.py MARKS [PATH...]` reads one regular expression a line from MARKS and prints a share
for each path; `--list` prints the marked sentences with file and line. A sentence has four words or more.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

_SPLIT = re.compile(r"(?<=[.;:])\s+")
_FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_SHORTEST_COMMENT = 16
_FEWEST_WORDS = 4

Text = tuple[int, str]
"""The line on which a text begins, and the text."""


def python_texts(source: str) -> Iterator[Text]:
    """Yield the docstrings of modules, classes and functions, and the comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring:
                yield node.body[0].lineno, docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.removeprefix("# ")
        if token.type == tokenize.COMMENT and len(text) >= _SHORTEST_COMMENT and text[0].isalpha():
            yield token.start[0], text


def markdown_texts(source: str) -> Iterator[Text]:
    """Yield the paragraphs of a page without its fenced code."""
    prose = _FENCED.sub(lambda found: "\n" * found.group().count("\n"), source)
    for paragraph in re.finditer(r"[^\n]+(\n[^\n]+)*", prose):
        yield prose.count("\n", 0, paragraph.start()) + 1, paragraph.group()


def sentences(path: Path) -> Iterator[Text]:
    """Yield the sentences of a file, with the line on which the text around them begins."""
    source = path.read_text("utf-8")
    texts = markdown_texts(source) if path.suffix == ".md" else python_texts(source)
    for line, text in texts:
        for sentence in _SPLIT.split(" ".join(text.split())):
            if len(sentence.split()) >= _FEWEST_WORDS:
                yield line, sentence


def read_marks(path: Path) -> list[re.Pattern[str]]:
    """Return the expressions of a file, without its comments."""
    lines = path.read_text("utf-8").splitlines()
    return [re.compile(line) for line in lines if line and not line.startswith("#")]


def files_of(path: Path) -> list[Path]:
    """Return the Python and Markdown files under a path."""
    return [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.suffix in (".py", ".md"))


def main() -> None:
    """Print the share of marked sentences for each path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("marks", type=Path)
    parser.add_argument("paths", type=Path, nargs="*", default=[Path("src"), Path("docs")])
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    marks = read_marks(options.marks)
    for path in options.paths:
        count = marked = 0
        for file in files_of(path):
            for line, sentence in sentences(file):
                count += 1
                if any(mark.search(sentence) for mark in marks):
                    marked += 1
                    if options.list:
                        print(f"{file}:{line}: {sentence}")
        print(f"{path}: {marked} of {count} sentences marked, {100 * marked / max(count, 1):.1f}%")


if __name__ == "__main__":
    main()
