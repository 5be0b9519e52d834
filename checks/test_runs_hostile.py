"""Runs in hostile surroundings: folders of other people, and folders that are taken away or locked during a run."""

import datetime
import json
import os
import re
import shutil
import socket
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest
from msgspec import UNSET
from tests.cli_parts import FIRST_TIME, Said, command, environment, inside, rows, workspace
from tests.pipeline_parts import Answering, column, length, metrics_of, only_run, rewrite, run
from tests.platforms import posix_only
from tests.report_parts import make_run, small_rows

from tunecheck import ConfigurationError, Run, RunError, find_run
from tunecheck._records import seal_record
from tunecheck.pipeline import Journal, JournalReader, ResultsWriter
from tunecheck.plugins import read_object
from tunecheck.report import running
from tunecheck.report._serving import make_app, runs_page
from tunecheck.runs import _store, create_run, list_runs

ON_A_RUN = {
    "resume": ("evaluate", "--resume"),
    "reuse": ("evaluate", "--reuse"),
    "score": ("score",),
    "report": ("report",),
    "compare": ("compare", "whole"),
    "upload": ("upload", "--mlflow", "http://127.0.0.1:9"),
}
"""Commands that read one run, which is their last argument."""

FILES = ("run.json", "journal.jsonl", "eval_results.jsonl", "metrics.json")

_MOST_MEMORY = 4 << 30

Attack = Callable[[Path], str]


def limited(folder: Path, *arguments: str) -> Said:
    """Run a command that gets no more memory than any should need."""
    import resource  # of POSIX

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))

    done = subprocess.run(
        command(*arguments), cwd=folder, env=environment(), capture_output=True, text=True, timeout=60,
        check=False, stdin=subprocess.DEVNULL, preexec_fn=limit,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the finished runs `whole` and `foreign`."""
    folder = workspace(tmp_path_factory.mktemp("made"))
    assert inside(folder, "evaluate", "--dataset", "small.jsonl", "--name", "x", "--quiet").code == 0
    (first,) = (folder / "eval_results").iterdir()
    shutil.copytree(first, folder / "eval_results" / "whole")
    first.rename(folder / "eval_results" / "foreign")
    return folder


@pytest.fixture
def foreign(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "eval_results" / "foreign"


def with_a_link(path: Path) -> str:
    elsewhere = path.parents[2] / f"elsewhere-{path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    return "a link"


def with_an_endless_device(path: Path) -> str:
    path.unlink()
    path.symlink_to("/dev/zero")
    return "a link"


def with_a_pipe(path: Path) -> str:
    path.unlink()
    os.mkfifo(path)
    return "not a regular file"


@posix_only
@pytest.mark.parametrize("name", ON_A_RUN)
@pytest.mark.parametrize(("file", "attack"), [("run.json", with_an_endless_device), ("journal.jsonl", with_a_link)])
def test_each_command_refuses_a_link_in_a_run_folder(foreign: Path, name: str, file: str, attack: Attack) -> None:
    what = attack(foreign / file)
    said = limited(foreign.parents[1], *ON_A_RUN[name], "foreign")
    assert said.code == 2, said
    assert said.err.count("\n") == 1, said.err
    assert f"{file} is {what}" in said.err


@pytest.mark.parametrize(
    "attack", [with_a_link, *(pytest.param(each, marks=posix_only) for each in (with_an_endless_device, with_a_pipe))]
)
@pytest.mark.parametrize("file", FILES)
def test_whatever_is_no_ordinary_file_is_named(foreign: Path, file: str, attack: Attack) -> None:
    what = attack(foreign / file)
    with pytest.raises(ConfigurationError, match=f"{re.escape(file)} is {what}"):
        find_run("foreign", foreign.parent).manifest()


@posix_only
def test_runs_lists_the_others_and_says_what_is_wrong(foreign: Path) -> None:
    what = with_an_endless_device(foreign / "run.json")
    said = limited(foreign.parents[1], "runs", "--json")
    assert said.code == 0, said.err
    listed = {run["run"]: run for run in said.json()}
    assert listed["whole"]["status"] == "finished"
    assert what in listed["foreign"]["problem"]


def test_a_journal_that_is_a_link_is_not_written_through(foreign: Path) -> None:
    victim = foreign.parents[1] / "notes.txt"
    victim.write_text("mine\nand a last line without an end")
    (foreign / "journal.jsonl").unlink()
    (foreign / "journal.jsonl").symlink_to(victim)
    assert inside(foreign.parents[1], "evaluate", "--resume", "foreign").code == 2
    assert victim.read_text() == "mine\nand a last line without an end"


@pytest.mark.parametrize("name", ["eval_results.jsonl.partial", "memory", "bfcl", "upload.json", ".upload.lock"])
def test_what_a_command_would_write_does_not_lead_out_of_the_folder(foreign: Path, name: str) -> None:
    outside = foreign.parents[1] / "outside"
    outside.mkdir()
    (foreign / name).symlink_to(outside)
    with pytest.raises(ConfigurationError, match=f"{name} is a link"):
        find_run("foreign", foreign.parent).manifest()


def test_a_file_with_a_second_name_is_read_and_not_written_to(foreign: Path) -> None:
    journal, own = foreign / "journal.jsonl", foreign.parents[1] / "own.txt"
    before = journal.read_bytes()
    journal.rename(own)
    journal.hardlink_to(own)
    assert len(Run(foreign).manifest().evaluators) > 0
    with pytest.raises(RunError, match=r"journal\.jsonl: cannot be written: the file has more than one hard link"):
        Journal(journal)
    assert own.read_bytes() == before


def test_what_would_be_emptied_is_not_where_it_has_a_second_name(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("mine")
    (tmp_path / "eval_results.jsonl.partial").hardlink_to(own)
    with pytest.raises(OSError, match="has more than one hard link"):
        ResultsWriter(tmp_path / "eval_results.jsonl")
    assert own.read_text() == "mine"


async def test_a_hostile_run_shows_no_file_of_ours_and_runs_no_script(tmp_path: Path) -> None:
    script = "</script><script>alert(1)</script>"
    run = make_run(tmp_path, small_rows())
    secret = tmp_path / "secret.txt"
    secret.write_text('{"row_id": "nobody\'s business"}\n', "utf-8")
    runs = run.folder.parent
    for name, file in (("results", "eval_results.jsonl"), ("manifest", "run.json"), ("beside", "memory.json")):
        linked = shutil.copytree(run.folder, runs / f"{name}-20260101T000000Z-00000{len(name) % 10}")
        (linked / file).unlink(missing_ok=True)
        (linked / file).symlink_to(secret)
    said = runs / "says-20260101T000000Z-00000a"
    shutil.copytree(run.folder, said)
    rewrite(said / "run.json", name=script, id="../../secret.txt")
    (said / "eval_results.jsonl").write_text(json.dumps({"row_id": script, "inputs.q": script}) + "\n", "utf-8")
    async with running(make_app(runs, "known"), "127.0.0.1", 0) as url, aiohttp.ClientSession(url) as session:
        for path in ("/", *(f"/runs/{folder.name}" for folder in runs.iterdir())):
            async with session.get(path, params={"token": "known"}) as reply:
                page = await reply.text()
                assert reply.status == (409 if "0000Z" in path and "says" not in path else 200), path
                assert "nobody's business" not in page
                assert script not in page


@posix_only
def test_a_socket_deep_in_a_run_folder_is_refused(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = foreign / "memory" / "session-1"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("events.jsonl")
        with pytest.raises(ConfigurationError, match=r"memory/session-1/events\.jsonl is not a regular file"):
            Run(foreign).manifest()


def test_the_folder_itself_may_be_reached_by_a_link(foreign: Path) -> None:
    link = foreign.parents[1] / "linked"
    link.symlink_to(foreign)
    assert inside(foreign.parents[1], "report", "linked").code == 0


@posix_only
@pytest.mark.parametrize("file", ["run.json", "metrics.json"])
def test_a_file_of_gigabytes_is_refused_before_it_is_read(foreign: Path, file: str) -> None:
    with (foreign / file).open("r+b") as opened:
        opened.truncate(20 << 30)  # takes no room on the disk
    said = limited(foreign.parents[1], "report", "foreign")
    assert (said.code, said.err.count("\n")) == (2, 1), said
    assert f"{file}: cannot be read: the file is larger than" in said.err


def journal_of_far_rows(path: Path) -> None:
    journal = Journal(path)
    for number in range(1, 40):
        journal.answer(number << 20, f"r{number}", "0", {"response": ""})
    journal.close()


def test_a_journals_rows_take_memory_by_their_count_and_not_by_their_numbers(tmp_path: Path) -> None:
    journal_of_far_rows(path := tmp_path / "journal.jsonl")
    tracemalloc.start()
    found = JournalReader(path, by_row=True, evaluators=frozenset(), answers=True)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.answer(39 << 20, "0") == {"response": ""}
    assert most < 96 << 20


def test_the_last_record_of_a_row_counts_however_far_the_row_is_from_the_others(tmp_path: Path) -> None:
    journal, far = Journal(path := tmp_path / "journal.jsonl"), (1 << 20) + 10
    for row, response in [(far, "first"), (0, ""), (1, ""), (2, ""), (far, "last")]:
        journal.answer(row, f"r{row}", "0", {"response": response})
    journal.close()
    found = JournalReader(path, by_row=True, evaluators=frozenset(), answers=True)
    assert found.answer(far, "0") == {"response": "last"}


def test_a_run_may_say_of_itself_that_it_has_any_number_of_rows(tmp_path: Path) -> None:
    journal_of_far_rows(path := tmp_path / "journal.jsonl")
    found = JournalReader(path, by_row=True, evaluators=frozenset(), answers=True)
    tracemalloc.start()
    path.with_suffix(".synced").write_bytes(seal_record(b'{"k":"synced"}', 50))
    told = JournalReader(path, by_row=True, evaluators=frozenset(), answers=True).describe_loss(1 << 20)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.describe_loss() is None
    assert told is not None
    assert told.endswith("of rows number 1, number 2, number 3, number 4, number 5 and others")
    assert most < 96 << 20


@pytest.mark.parametrize("key", ["row_count", "records"])
def test_a_count_that_no_file_reaches_is_passed_over(foreign: Path, key: str) -> None:
    rewrite(foreign / "run.json", **{key: 10**400})
    assert getattr(Run(foreign).manifest(), key) is UNSET


def test_a_count_of_synced_records_that_no_file_reaches_counts_for_nothing(tmp_path: Path) -> None:
    journal_of_far_rows(path := tmp_path / "journal.jsonl")
    path.with_suffix(".synced").write_bytes(seal_record(b'{"k":"synced"}', 10**400))
    assert JournalReader(path, by_row=True, evaluators=frozenset(), answers=True).lost == 0


@pytest.mark.parametrize("rate", [10**400, 1e308, -1, "1", True], ids=lambda rate: str(rate)[:6])
def test_a_figure_that_cannot_be_hides_no_run(foreign: Path, rate: object) -> None:
    metrics = json.loads((foreign / "metrics.json").read_text("utf-8"))["metrics"]
    rates = {name: rate for name in metrics if name.endswith("binary_aggregate")}
    assert rates
    rewrite(foreign / "metrics.json", metrics=metrics | rates)
    said = inside(foreign.parents[1], "runs")
    assert said.code == 0, said
    assert "whole" in said.out
    assert "foreign" in said.out
    assert "whole" in runs_page(foreign.parent)


@pytest.mark.parametrize("file", ["run.json", "metrics.json"])
def test_a_file_nested_deeper_than_ours_is_refused_in_a_line(foreign: Path, file: str) -> None:
    (foreign / file).write_text('{"metrics": ' + "[" * 900 + "]" * 900 + "}", "utf-8")
    with pytest.raises(
        ConfigurationError, match=f"{re.escape(file)}: cannot be read: the JSON is nested deeper than 200 levels"
    ):
        read_object(foreign / file)


DATA = [{"id": f"r{number}", "question": f"q{number}"} for number in range(6)]


class Meddling(Answering):
    """A target that changes the run's folder, given to it, when the last row comes."""

    def __init__(self, folder: Path, meddle: object) -> None:
        super().__init__()
        self._folder, self._meddle = folder, meddle

    async def answer(self, row: object, context: object) -> object:  # type: ignore[override]
        if row.values["question"] == "q5":  # type: ignore[attr-defined]
            self._meddle(only_run(self._folder).folder)  # type: ignore[operator]
        return await super().answer(row, context)  # type: ignore[arg-type]


def make_unwritable(folder: Path, undo: ExitStack) -> None:
    """No file can be made or renamed in it; root is kept out by nothing less than `chattr`."""
    if not hasattr(os, "geteuid") or os.geteuid():
        folder.chmod(0o555)
        undo.callback(folder.chmod, 0o755)
        return
    if subprocess.run(["chattr", "+i", folder], capture_output=True, check=False).returncode:
        pytest.skip("nothing keeps root from writing here")
    undo.callback(lambda: subprocess.run(["chattr", "-i", folder], check=True))


def test_a_folder_that_becomes_read_only_ends_the_run_in_a_line_and_loses_nothing(tmp_path: Path) -> None:
    with ExitStack() as undo:
        target = Meddling(tmp_path, lambda folder: make_unwritable(folder, undo))
        said = r"eval_results\.jsonl.*: .*not permitted|denied.*; go on with the same Python call and resume='rows-"
        with pytest.raises(RunError, match=said):
            run(tmp_path, DATA, target=target, evaluators={"n": length}, concurrency=1)
    again = Answering()
    result = run(tmp_path, DATA, target=again, evaluators={"n": length}, resume="last")
    assert (result.row_count, again.asked) == (6, [])


def test_a_folder_that_is_moved_is_resumed_where_it_is_now(tmp_path: Path) -> None:
    target = Meddling(tmp_path, lambda folder: folder.rename(tmp_path / "moved"))
    with pytest.raises(RunError, match=r"or resume the moved folder"):
        run(tmp_path, DATA, target=target, evaluators={"n": length}, concurrency=1)
    again = Answering()
    result = run(tmp_path, DATA, target=again, evaluators={"n": length}, resume=str(tmp_path / "moved"))
    assert (result.row_count, again.asked) == (6, [])


def test_nobody_is_asked_for_long_once_the_folder_is_gone(tmp_path: Path) -> None:
    asked = 0

    def slowly(question: str) -> str:
        nonlocal asked
        asked += 1
        if asked == 3:
            shutil.rmtree(only_run(tmp_path).folder)
        time.sleep(0.05)
        return question

    rows = [{"question": str(n)} for n in range(400)]
    with pytest.raises(RunError, match="was removed or moved: start a new run"):
        run(tmp_path, rows, target=slowly, evaluators={"n": length}, concurrency=1)
    assert asked < 200


def test_the_command_line_says_it_without_a_traceback(tmp_path: Path) -> None:
    workspace(tmp_path)
    (tmp_path / "evaluators").mkdir()
    (tmp_path / "evaluators" / "remover.py").write_text(
        "import pathlib, shutil\n\ndef remover(response):\n"
        "    for run in pathlib.Path('eval_results').glob('*'):\n        shutil.rmtree(run)\n    return 1\n"
    )
    said = inside(tmp_path, "evaluate", "--dataset", "small.jsonl", "--evaluators", "remover")
    complaints = said.err.removeprefix(FIRST_TIME.format("evaluators/remover.py"))
    assert (said.code, complaints.count("\n")) == (1, 1), said.err
    assert "was removed or moved" in said.err


@pytest.mark.parametrize("back_s", [1, 86_400, 400 * 86_400])
def test_a_clock_set_back_changes_no_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back_s: int) -> None:
    ids = []
    real, real_ns = _store.utc_now, time.time_ns
    for number in range(4):
        ids.append(run(tmp_path, [{"response": "x"}], evaluators={"n": length}).run_dir.name)
        monkeypatch.setattr(_store, "utc_now", lambda: real() - datetime.timedelta(seconds=back_s * number))  # noqa: B023
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() - back_s * number * 10**9)  # noqa: B023
    assert [found.id for found in list_runs(tmp_path / "runs")] == ids
    assert find_run("last", tmp_path / "runs").id == ids[-1]


def test_an_evaluator_in_another_folder_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"response": "{n}"}}\n' for n in range(3_000)))

    def wanders(response: str) -> int:
        os.chdir(elsewhere)
        return len(response)

    result = run(Path(), "rows.jsonl", evaluators={"n": wanders}, output_path="out.json", repeat=2)
    assert Path.cwd() == tmp_path
    assert metrics_of(result)["n.scored_count"] == 6_000
    assert len(column(result, "outputs.n.n")) == 6_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "out.json", "rows.jsonl", "runs"]
    assert [*elsewhere.iterdir()] == []


def test_no_file_of_a_command_goes_where_an_evaluator_went(tmp_path: Path) -> None:
    workspace(tmp_path, rows(6))
    (tmp_path / "evaluators").mkdir()
    (tmp_path / "evaluators" / "wanders.py").write_text(
        "import os\n\ndef wanders(response):\n    os.chdir('/')\n    return 1\n"
    )
    files = ("--markdown", "it.md", "--junit", "it.xml")
    said = inside(tmp_path, "evaluate", "--dataset", "small.jsonl", "--evaluators", "wanders", *files)
    assert (said.code, said.err) == (0, FIRST_TIME.format("evaluators/wanders.py"))
    assert {"it.md", "it.xml", "eval_results"} <= {path.name for path in tmp_path.iterdir()}


def test_a_run_begun_while_another_one_is_being_made_is_another_one(tmp_path: Path) -> None:
    assert len({create_run(tmp_path, "same")[0].id for _ in range(20)}) == 20
