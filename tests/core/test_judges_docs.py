"""The page about judges does what it shows: its files are written, its commands run, and their output is the page's."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli_parts import ROOT, inside
from tests.scripted_server import scripted

from tunecheck.evaluators import KINDS
from tunecheck.plugins import find
from tunecheck.prompts import load_prompt

PAGE = (ROOT / "docs" / "judges.md").read_text("utf-8")
PRETENDED = """\
name: pretend
rules:
  - when: {system: customer service, user: {any: [Sure, Thank, "You're welcome", happy, Lovely]}}
    answer: {reason: It is friendly., score: 5}
  - when: {system: customer service}
    answer: {reason: It gives the facts and no more., score: 3}
  - when: {user: "2025-"}
    answer:
      reason: The date stands in another form than the tool reads.
      differences: [{where: date, expected: "2025-12-06", actual: "06/12/2025", kind: date format}]
      score: 0.5
  - answer:
      reason: The same in other words.
      differences: [{where: the whole, expected: "…", actual: "…", kind: wording}]
      score: 0.9
"""
"""What the model of the page's judge answers."""

RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.S | re.M)


def plain(text: str) -> list[str]:
    """The words of each line: how wide a table is, depends on where it is printed; ids and files on the run."""
    text = re.sub(r"files in .*", "", RUN_ID.sub("ID", text), flags=re.S)
    return " ".join(text.split()).split(" ")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    """A workspace with the page's files in it, and its server running."""
    assert inside(tmp_path, "init", ".").code == 0
    (prompt,) = blocks("prompty")
    (tmp_path / "prompty" / "politeness.prompty").write_text(prompt, "utf-8")
    definition, prices = blocks("yaml")
    (tmp_path / "pretend.yaml").write_text(PRETENDED, "utf-8")
    (tmp_path / "prices.yaml").write_text(prices, "utf-8")
    (labels,) = blocks("jsonl")
    (tmp_path / "labels.jsonl").write_text(labels, "utf-8")
    with scripted(tmp_path / "pretend.yaml") as url:
        (tmp_path / "endpoints" / "judge.yaml").write_text(definition.replace("http://127.0.0.1:8000", url), "utf-8")
        yield tmp_path


def test_the_pages_commands_print_what_it_shows(workspace: Path) -> None:
    for block in blocks("console"):
        line, _, shown = block.removeprefix("$ ").partition("\n")
        program, *arguments = shlex.split(line)
        assert program == "tunecheck"
        said = inside(workspace, *arguments)
        assert said.code == 0, (line, said.err)
        assert plain(said.out) == plain(shown), line


def test_the_page_names_every_kind_of_difference_and_every_shipped_judge() -> None:
    assert ", ".join(KINDS) in " ".join(PAGE.split())
    for name, kind in re.findall(r"^\| `(\w+)` \| `(\w+Evaluator)` \|", PAGE, re.M):
        judge = find("evaluators", name)
        assert getattr(judge, "__name__", None) == kind
        shipped = load_prompt(ROOT / "src" / "tunecheck" / "prompts" / "files" / f"{name}.prompty")
        assert shipped.outputs
