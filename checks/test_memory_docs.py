"""The pages about long-term memory do what they show: their files, its commands and their output are a reader's."""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from checks.goodai_rescore import rescore_file
from tests.agent_parts import serving as serving_agent
from tests.cli_parts import ROOT, Said, command, environment, inside, script
from tests.core.test_judges_docs import RUN_ID
from tests.report_parts import browser_at_work, looking_at

from tunecheck import Run
from tunecheck.plugins import discover, find
from tunecheck.runs import list_runs

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGES = ("memory.md", "memory-reference.md", "from-goodai.md")
PAGE = "\n".join((ROOT / "docs" / name).read_text("utf-8") for name in PAGES)
BEGIN = "tunecheck memory run -c benchmark.yml --endpoint notes --unjudged"
PACE = re.compile(r"[\d,.]+ tokens/s")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.S | re.M)


def shown_commands() -> list[tuple[str, str]]:
    """Each command of a console block, and what it prints."""
    return [(line, output) for line, _, output in (block[2:].partition("\n") for block in blocks("console"))]


def needs_reference(line: str) -> bool:
    return "trivia" in line


def write_files(folder: Path, notes: str) -> str:
    """The files that the page names, with the address of an agent that is there; gives what is added to one later."""
    added = ""
    for block in (*blocks("yaml"), *blocks("python")):
        first, text = block.split("\n", 1)
        if first.endswith(", at its end"):
            added = text
        else:
            path = folder / first.removeprefix("# ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.replace("http://127.0.0.1:8080", notes), "utf-8")
    passages, recorded = blocks("jsonl")
    (folder / "passages.jsonl").write_text(passages, "utf-8")
    (folder / "recorded.jsonl").write_text(recorded, "utf-8")
    return added


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def run(folder: Path, line: str) -> Said:
    program, *arguments = shlex.split(line)
    if program == "python":
        return script(folder, *arguments)
    assert program == "tunecheck"
    return inside(folder, *arguments)


def plain(text: str) -> list[str]:
    """Lines of output without what differs from run to run."""
    return [line.rstrip() for line in PACE.sub("N tokens/s", RUN_ID.sub("ID", text)).strip().splitlines()]


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    """A workspace with the page's files in it, and its agent running."""
    assert inside(tmp_path, "init", ".").code == 0
    with serving_agent() as url:
        write_files(tmp_path, url)
        yield tmp_path


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run, in such a workspace."""
    folder = tmp_path_factory.mktemp("begun")
    assert inside(folder, "init", ".").code == 0
    with serving_agent() as url:
        write_files(folder, url)
        return folder / run(folder, f"{BEGIN} --quiet").out.strip()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browser_at_work() as browser:
        yield browser


# -- the page's commands


def test_the_pages_commands_print_what_it_shows(tmp_path: Path) -> None:
    assert inside(tmp_path, "init", ".").code == 0
    with serving_agent() as url:
        added = write_files(tmp_path, url)
        for number, (line, output) in enumerate(each for each in shown_commands() if not needs_reference(each[0])):
            if number == 1:
                with (tmp_path / "benchmark.yml").open("a", encoding="utf-8") as file:
                    file.write(added)
            said = run(tmp_path, line)
            assert said.code == (2 if output.startswith("error: ") else 0), (line, said.err)
            assert plain(said.out + said.err) == plain(output), line


def test_the_pages_commands_on_the_references_files_print_what_it_shows(tmp_path: Path, shared_data: Path) -> None:
    reference = (shared_data / "ltm").resolve()
    (tmp_path / "data").mkdir()
    for name in ("tests", "trivia"):
        (tmp_path / "data" / name).symlink_to(reference / name)
    shutil.copy(reference / "wording.yml", tmp_path / "theirs.yml")
    shutil.copy(reference / "restaurant_menu.json", tmp_path)
    shutil.copy(reference / "trivia" / "trivia.json", tmp_path)
    commands = [each for each in shown_commands() if needs_reference(each[0])]
    assert len(commands) == 1
    for line, output in commands:
        said = run(tmp_path, line)
        assert said.code == 0, (line, said.err)
        shown = said.out.replace(str(reference), "data").replace(f"{tmp_path}/", "")
        assert plain(shown) == plain(output), line


def test_the_report_has_the_timeline_of_the_picture(begun: Path, browser: Browser) -> None:
    said = run(begun.parents[1], f"tunecheck report {begun.name}")
    assert "`tunecheck report last`" in PAGE
    with looking_at(browser, f"file://{begun.parents[1] / said.out.strip()}") as looked:
        timeline = " ".join(looked.texts("#timeline"))
        assert looked.complaints == []
    assert "10 tests" in timeline
    assert "Ten tests as lines along the tokens" in PAGE
    assert "Colours - 0" in timeline


# -- runs that break off


def cut_off(folder: Path) -> Run:
    """A run that is killed in the middle."""
    before = {each.id for each in list_runs(folder / "eval_results")}
    with subprocess.Popen(
        command(*shlex.split(BEGIN)[1:]), cwd=folder, env=environment(), stdout=subprocess.DEVNULL
    ) as started:
        while not (found := list(new_events(folder, before))) or found[0].read_bytes().count(b"\n") < 60:
            assert started.poll() is None
            time.sleep(0.005)
        started.kill()
    return next(each for each in list_runs(folder / "eval_results") if each.id not in before)


def new_events(folder: Path, before: set[str]) -> Iterator[Path]:
    for path in folder.glob("eval_results/*/memory/session-1/events.jsonl"):
        if path.parents[2].name not in before:
            yield path


def test_a_run_that_broke_off_goes_on_as_the_page_says(tmp_path: Path) -> None:
    assert inside(tmp_path, "init", ".").code == 0
    with serving_agent("--latency-ms", "8") as url:
        write_files(tmp_path, url)
        killed = cut_off(tmp_path)
        (line,) = "".join(blocks("sh")).splitlines()
        resumed = run(tmp_path, line)
        assert (resumed.code, killed.status()) == (0, "finished"), resumed.err
        begun = run(tmp_path, BEGIN)
    unbroken = dict(shown_commands()[:1])[BEGIN]
    texts = [re.sub(r"(?s)Next, .*?\n\n", "", text) for text in (resumed.out, begun.out, unbroken)]  # by earlier runs
    assert plain(texts[0]) == plain(texts[1]) == plain(texts[2])


# -- what it leaves behind


def table(heading: str) -> str:
    """The part of the page below a heading."""
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_a_run_leaves_the_files_and_columns_that_the_pages_name(begun: Path) -> None:
    memory = begun / "memory"
    results = memory / "First try" / "results" / "notes"
    for path in (
        *(memory / "summary.json", memory / "session-1" / "events.jsonl", memory / "First try" / "definitions"),
        *(results / "master_log.jsonl", results / "runstats.json", results / "Colours" / "0_0.json"),
    ):
        assert path.exists(), path
    assert (begun.parents[1] / "datasets" / "memory" / "First try" / "definitions" / "Colours" / "0.def.json").is_file()
    described = (
        (ROOT / "docs" / "run-folder.md").read_text("utf-8").split("## A row of a memory run")[1].split("\n## ")[0]
    )
    named = set(re.findall(r"`((?:inputs|outputs)\.[\w.]+)`", described + table("What a run leaves behind")))
    assert len(named) > 15
    (first, *_) = Run(begun).rows()
    assert named <= first.keys()


def test_the_event_log_holds_the_lines_that_the_page_shows(begun: Path) -> None:
    (shown,) = blocks("json")
    written = (begun / "memory" / "session-1" / "events.jsonl").read_text("utf-8")
    assert set(without_chance(shown)) < set(without_chance(written))


def without_chance(lines: str) -> list[str]:
    """Lines of an event log without the run's keys, how long replies took, and the checksums over both."""
    lines = re.sub(r'"c":\[(\d+),\d+\]', r'"c":[\1]', lines)
    return re.sub(r'"ms":[\d.e-]+', '"ms":0', re.sub(r'"key":"[0-9a-f]+"', '"key":""', lines)).splitlines()


def test_recorded_replies_are_judged_as_the_page_says(begun: Path) -> None:
    workspace = begun.parents[1]
    judged = inside(workspace, "score", "last", "--evaluators", "memory", "--judge", "pretended.yaml", "--json")
    assert judged.code == 0, judged.err
    assert "memory.mean_delayed_recall" in judged.out


# -- what the page says of the program


def test_the_page_lists_every_kind_with_its_arguments_and_defaults() -> None:
    rows = re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|[^|]+\|([^|]+)\|[^|]+\|$", table("The configuration"), re.M)
    listed = {name: arguments_in(cell) for names, cell in rows for name in re.findall(r"`(\w+)`", names)}
    assert listed.keys() == {plugin.name for plugin in discover("memory")}
    for name, arguments in listed.items():
        assert arguments == defaults(name), name


def arguments_in(cell: str) -> dict[str, str]:
    return dict(re.findall(r"`(\w+)`(?: \(([^)]+)\))?", cell))


def defaults(kind: str) -> dict[str, str]:
    """A kind's arguments with what they are where nothing is given."""
    made: Any = find("memory", kind)
    parameters = [*inspect.signature(made).parameters.values()]
    return {each.name: str(each.default) for each in parameters}


def test_every_option_that_the_page_names_is_one(tmp_path: Path) -> None:
    help_text = inside(tmp_path, "memory", "run", "--help").out
    here = "\n".join(line.split(" | ")[-1] for line in PAGE.splitlines())  # there, on the left, are the reference's own
    named = set(re.findall(r"(?<![\w-])--[a-z]{2,}(?:-[a-z]+)*", here))
    of_others = {"--service", "--port", "--evaluators", "--set", "--fail-under"}
    of_others |= {"--details"}  # of `compare`
    of_others |= {"--configuration", "--out", "--compat"}  # of the scripts in checks/
    assert len(named) > 20
    assert {option for option in named - of_others if f"{option} " not in help_text} == set()


def test_the_rules_agree_with_the_recorded_scores_as_often_as_the_page_says(shared_data: Path, tmp_path: Path) -> None:
    summary = rescore_file(shared_data / "ltm" / "recorded_scores.jsonl", tmp_path / "out.jsonl")
    rows = re.findall(r"^\| ([A-Z][\w ]+?)(?:, Locations)? \| .*?same score in (\d+) of (\d+) rows", PAGE, re.M)
    assert len(rows) == 3
    for title, equal, count in rows:
        tally = summary.tallies[title, "needs_llm"]
        assert (tally.equal, tally.rows) == (int(equal), int(count)), title
