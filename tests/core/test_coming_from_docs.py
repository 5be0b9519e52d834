"""The pages for people who come from another tool: their files make a workspace in which their commands run."""

import re
import shlex
from pathlib import Path

import pytest
from tests.cli_parts import ROOT, inside

PAGES = ("from-promptfoo.md", "from-inspect.md", "from-openai-evals.md")
LONGEST = 350
"""The most words of a page, outside of code."""


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


ENDPOINT = "kind: python\nfunction: model.py:answer\n"
MODEL = """\
def answer(messages, tools=None):
    if tools:
        return {"name": "refund", "arguments": {"order": 17}}
    return "Paris or Billing"
"""


def write_files(folder: Path, page: str) -> None:
    """The page's files; a function stands for the model that its endpoint names."""
    for language, text in re.findall(r"^```(yaml|python)\n(.*?)^```$", page, re.S | re.M):
        name = text.split("\n", 1)[0].removeprefix("# ")
        (folder / name).parent.mkdir(exist_ok=True)
        endpoint = language == "yaml" and name.startswith("endpoints/")
        (folder / name).write_text(ENDPOINT if endpoint else text, "utf-8")
    (folder / "endpoints" / "model.py").write_text(MODEL, "utf-8")
    for name, content in re.findall(r"`((?:datasets/)?\w+\.jsonl?)`:?\n\n```json\n(.*?)```", page, re.S):
        (folder / name).write_text(content, "utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_commands_run_in_a_workspace_with_its_files(page: str, tmp_path: Path) -> None:
    assert inside(tmp_path, "init", ".").code == 0
    write_files(tmp_path, text_of(page))
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", text_of(page), re.S | re.M)
    for line in commands.splitlines():
        said = inside(tmp_path, *shlex.split(line)[1:])
        assert said.code == 0, (line, said.out, said.err)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_short(page: str) -> None:
    outside = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.S | re.M)
    assert len(outside.split()) <= LONGEST
