"""The page about BFCL does what it shows: its files are written, its commands run, and their output is the page's."""

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.bfcl_reference import reference_wheel
from tests.cli_parts import ROOT, Said, inside, script
from tests.conversation_parts import Answer, Values, serving

PAGE = (ROOT / "docs" / "bfcl.md").read_text("utf-8")
RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")
CONVERSATIONS = "bfcl_runs/*/result/*/multi_turn/*.json"

Run = Callable[[str], Said]


def blocks(*languages: str) -> list[str]:
    """The fenced blocks of the page in these languages, in order."""
    return [text for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.S | re.M) if language in languages]


def shown_commands() -> list[tuple[str, str]]:
    """Each command of a console block, and what it prints."""
    parts = [part for block in blocks("console") for part in block.split("$ ")[1:]]
    return [(line, output) for line, _, output in (part.partition("\n") for part in parts)]


def write_files(folder: Path, url: str) -> None:
    """The files that the page names, with the address of a server that is there."""
    for block in blocks("yaml"):
        name, text = block.split("\n", 1)
        write(folder / name.removeprefix("# "), text.replace("http://127.0.0.1:8000/v1", url))
    for name, text in re.findall(r"`((?:datasets|endpoints)/\w+\.jsonl)`:\n\n```json\n(.*?)```", PAGE, re.S):
        write(folder / name, text)
    mistaken = (folder / "datasets" / "heating.jsonl").read_text().splitlines()[0].replace("degrees=22", "degree=22")
    write(folder / "datasets" / "mistaken.jsonl", mistaken)
    simulator = re.search(r"```python\n# (simulators/\w+\.py)\n(.*?)```", own_simulators(), re.S)
    assert simulator is not None
    write(folder / simulator[1], simulator[2])


def own_simulators() -> str:
    return (ROOT / "docs" / "own-simulators.md").read_text("utf-8")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def answered(body: Values) -> Answer:
    """A model that looks around in a conversation, and otherwise calls nothing."""
    names = [tool["function"]["name"] for tool in body.get("tools", ())]
    return [("pwd", {})] if "pwd" in names and body["messages"][-1]["role"] == "user" else "I cannot do that."


@pytest.fixture
def workspace(tmp_path: Path, shared_data: Path) -> Iterator[Path]:
    """A folder with what the page's reader has at the end: its files, and two recorded runs."""
    for file in shared_data.glob(CONVERSATIONS):
        target = tmp_path / "result" / file.parent.parent.name / "multi_turn"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    with serving(answered) as server:
        write_files(tmp_path, server.url)
        yield tmp_path


@pytest.fixture
def run(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command of the page in the folder; the data come from a wheel that is here already."""
    monkeypatch.delenv("TUNECHECK_BFCL", raising=False)

    def run_line(line: str) -> Said:
        program, *arguments = shlex.split(line, comments=True)
        if program == "tunecheck":
            own = ["--from", str(reference_wheel())] if arguments == ["bfcl", "get"] else []
            return inside(workspace, *arguments, *own, XDG_CACHE_HOME=str(workspace / "cache"))
        return script(workspace, *arguments, XDG_CACHE_HOME=str(workspace / "cache"))

    return run_line


def plain(text: str, folder: Path) -> list[str]:
    """Lines of output without what differs from run to run."""
    text = RUN_ID.sub("ID", text.replace(str(folder / "cache"), "/home/you/.cache"))
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_page_s_commands_print_what_it_shows(workspace: Path, run: Run) -> None:
    for line, output in shown_commands():
        said = run(line)
        assert said.code == (3 if "mistaken" in line else 0), (line, said.err)
        assert plain(said.out, workspace) == plain(output, workspace), line
    (verdicts,) = workspace.glob("eval_results/bfcl-simulated-*/bfcl_score/multi_turn_base.verdicts.jsonl")
    (shown,) = (block for block in blocks("json") if '"valid"' in block)
    assert set(shown.splitlines()) < set(verdicts.read_text("utf-8").splitlines())
