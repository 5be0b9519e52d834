"""The documentation names what is public, all of it and nothing else; pages for newcomers make working workspaces."""

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.cli_parts import inside
from tests.conftest import ROOT

import tunecheck
from tunecheck import TunecheckError
from tunecheck.plugins import discover

PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "evaluators").glob("*.py")])
LINKING = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "checks").glob("*.md")])
LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)\)")
COMING = ("from-promptfoo.md", "from-inspect.md", "from-openai-evals.md")
"""The pages for people who come from another tool."""
LONGEST, LONGEST_OF_COMING = 2000, 350
"""The most words of a page, outside of code."""
IMPORT = re.compile(r"\b(?:from (tunecheck[\w.]*) import ([\w, ]+)|import (tunecheck\.[\w.]+))")
DOTTED = re.compile(r"\btunecheck(?:\.\w+)*\._\w+")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_imports_public_names_only(page: Path) -> None:
    for module, names, plain in IMPORT.findall(page.read_text("utf-8")):
        loaded = importlib.import_module(module or plain)
        for name in re.findall(r"\w+", names):
            assert name in loaded.__all__, f"{page.name} imports {name} from {module}, which does not offer it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_no_internal_module(page: Path) -> None:
    assert DOTTED.findall(page.read_text("utf-8")) == []


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_a_page_links_to_files_and_headings_that_are_there(page: Path) -> None:
    for target in LINK.findall(re.sub(r"(`+)[^`].*?\1", "", _without_code(page), flags=re.DOTALL)):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in _anchors(file), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_short_enough_to_be_read(page: Path) -> None:
    most = LONGEST_OF_COMING if page.name in COMING else LONGEST
    assert page.suffix != ".md" or len(_without_code(page).split()) <= most


def test_every_command_is_on_the_page_of_options() -> None:
    page = (ROOT / "docs" / "options.md").read_text("utf-8")
    assert sorted(re.findall(r"^## (.*)$", page, re.MULTILINE)) == sorted(each.name for each in discover("commands"))


def test_every_public_name_is_on_the_page_of_the_python_api_or_of_errors() -> None:
    api = set(re.findall(r"^::: tunecheck\.(\w+)$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE))
    errors = set(re.findall(r"`(\w+(?:Error|Died))`", (ROOT / "docs" / "errors.md").read_text("utf-8")))
    public = set(vars(tunecheck)["__all__"])
    assert public - {"__version__"} == (api | errors) & public


def test_every_error_that_can_reach_a_user_is_on_the_page_of_errors() -> None:
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    raised = {name for name in _errors_of_the_package() if not name.startswith("_")}
    assert len(raised) > 20
    assert raised - set(re.findall(r"`(?:tunecheck_\w+\.)?(\w+(?:Error|Exception|Died))`", page)) == set()


def test_every_error_on_that_page_is_one_of_ours_and_can_be_imported() -> None:
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    for name in re.findall(r"^\| [│├└ ]*`(\w+)`", page, re.MULTILINE):
        assert issubclass(getattr(tunecheck, name), TunecheckError)


def test_every_page_stands_in_the_sites_navigation() -> None:
    configuration = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert sorted(_pages(configuration["nav"])) == [page.name for page in sorted((ROOT / "docs").glob("*.md"))]


ENDPOINT = "kind: python\nfunction: model.py:answer\n"
MODEL = """\
def answer(messages, tools=None):
    if tools:
        return {"name": "refund", "arguments": {"order": 17}}
    return "Paris or Billing"
"""


def write_page(folder: Path, page: str) -> None:
    """The page's files; a function stands for the model that its endpoint names."""
    for language, text in re.findall(r"^```(yaml|python)\n(.*?)^```$", page, re.S | re.M):
        name = text.split("\n", 1)[0].removeprefix("# ")
        (folder / name).parent.mkdir(exist_ok=True)
        endpoint = language == "yaml" and name.startswith("endpoints/")
        (folder / name).write_text(ENDPOINT if endpoint else text, "utf-8")
    (folder / "endpoints" / "model.py").write_text(MODEL, "utf-8")
    for name, content in re.findall(r"`((?:datasets/)?\w+\.jsonl?)`:?\n\n```json\n(.*?)```", page, re.S):
        (folder / name).write_text(content, "utf-8")


@pytest.mark.parametrize("page", COMING)
def test_the_pages_commands_run_in_a_workspace_with_its_files(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert inside(tmp_path, "init", ".").code == 0
    write_page(tmp_path, text)
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M)
    for line in commands.splitlines():
        said = inside(tmp_path, *shlex.split(line)[1:])
        assert said.code == 0, (line, said.out, said.err)


def _without_code(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", _without_code(page), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def _pages(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, (list, dict)):
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from _pages(entry)


def _errors_of_the_package() -> set[str]:
    """The classes below TunecheckError, by what each class statement of the source says it is made from."""
    bases: dict[str, set[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for name, written in re.findall(r"^ *class (\w+)\(([^)]*)\)", path.read_text("utf-8"), re.MULTILINE):
            bases.setdefault(name, set()).update(re.findall(r"[\w.]+", written))
    found = {"TunecheckError"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found
