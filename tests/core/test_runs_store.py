"""Run folders: their names, how they are found, and what run.json says."""

import hashlib
import json
import platform
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import convert
from msgspec.structs import replace
from tests.pipeline_parts import Answering, length, run
from tests.tables import cases

from tunecheck import BleuScoreEvaluator, ConfigurationError, DataError, Metric, Run, TunecheckError, find_run, plugins
from tunecheck._files import JudgeCalibration
from tunecheck.pipeline import Journal, bind_evaluator, parse_mapping
from tunecheck.plugins import EvaluatorEntry, MetricEntry, RunFile, content_hash, dumps, loads, replacing, write_file
from tunecheck.runs import (
    MIRROR_STATE,
    _manifest as manifest,
    _store as store,
    create_run,
    describe_evaluators,
    dumps_readably,
    find_calibration,
    list_runs,
    mirror_folder,
    open_mirror,
    resume_manifest,
    reusable,
    save_calibration,
    stopped_text,
    value_reader,
    versions,
)


def made(folder: Path, *names: str) -> list[Run]:
    """Finished runs of these folder names."""
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "run.json").write_text(f'{{"status": "finished", "name": "{name}"}}')
    return [Run(folder / name) for name in names]


def outcome(act: Callable[..., object], *arguments: object) -> Any:
    """What an act returns, or the text of its error."""
    try:
        return act(*arguments)
    except TunecheckError as error:
        return str(error)


A, B, C = "a-20240101T000000Z-aaaaaa", "with-hyphens-20240102T000000Z-bbbbbb", "a-20240103T000000Z-cccccc"


@cases("runs")
def test_a_run_s_folder_has_its_name_the_time_and_six_digits(tmp_path: Path, name: str, beginning: str) -> None:
    folder = create_run(tmp_path / "deep" / "er", name)[0].folder
    assert folder.name.startswith(beginning)
    assert re.fullmatch(r".+-\d{8}T\d{6}Z-[0-9a-f]{6}", folder.name)


@given(st.text())
def test_no_name_leads_elsewhere(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    base = tmp_path_factory.mktemp("runs")
    assert create_run(base, name)[0].folder.parent == base


def test_a_run_is_found_by_its_folder_its_id_its_beginning_and_as_the_last(tmp_path: Path) -> None:
    first, second, third = made(tmp_path, A, B, C)
    assert find_run(tmp_path / A, tmp_path) == first
    assert find_run(str(tmp_path / A), Path("elsewhere")) == first
    assert (find_run("with", tmp_path), find_run("last", tmp_path)) == (second, third)


def test_runs_of_one_second_are_listed_in_the_order_they_were_made(tmp_path: Path) -> None:
    ids = [run(tmp_path, [{"response": "x"}], evaluators={"e": length}).run_dir.name for _ in range(12)]
    assert [found.id for found in list_runs(tmp_path / "runs")] == ids
    assert find_run("last", tmp_path / "runs").id == ids[-1]


@pytest.mark.parametrize("content", ["", "[]", "{", "null", "\0"])
def test_a_damaged_manifest_is_said_and_lists_all_the_same(tmp_path: Path, content: str) -> None:
    first, second = made(tmp_path, A, A.replace("aaaaaa", "dddddd"))
    (first.folder / "run.json").write_text(content)
    assert list(list_runs(tmp_path)) == [first, second]
    with pytest.raises(ConfigurationError, match=r"run\.json: (cannot be read|the file is not a JSON object)"):
        first.manifest()


def test_a_run_without_a_folder_or_with_a_link_is_refused(tmp_path: Path) -> None:
    assert outcome(Run(tmp_path / "r").manifest) == "run r has no run.json: restore this file"
    (found,) = made(tmp_path, A)
    found.results.symlink_to(found.manifest_file)
    problem = "(eval_results.jsonl is a link): put a regular file in its place"
    assert outcome(found.status) == f"run {A} cannot be used {problem}"


def test_a_run_whose_process_is_gone_was_killed(tmp_path: Path) -> None:
    (found,) = made(tmp_path, A)
    found.write(RunFile(status="running"))
    journal = Journal(found.journal)
    assert found.status() == "running"
    assert outcome(found.rows) == f"run {A} has no results, because it is still running: wait for its end"
    journal.close()
    assert found.status() == "killed"


def test_a_finished_run_whose_rows_are_gone_says_so(tmp_path: Path) -> None:
    (found,) = made(tmp_path, A)
    found.results.mkdir()
    with pytest.raises(ConfigurationError, match=r"is finished, but eval_results\.jsonl is missing"):
        found.rows()


@pytest.mark.parametrize(
    "content", [b'{"row_id": "a"}\n{"row_id": "b', b'{"row_id": "a"}\n[1]\n', b'{"row_id": "a"}\n\xff\n']
)
def test_a_damaged_row_names_its_file_and_line(tmp_path: Path, content: bytes) -> None:
    (found,) = made(tmp_path, A)
    found.write(RunFile(status="finished"))
    found.results.write_bytes(content)
    rows = found.rows()
    assert rows[0] == {"row_id": "a"}
    for read in (lambda: list(rows), lambda: rows[1], lambda: rows[1:], lambda: list(rows.only([1]))):
        with pytest.raises(DataError, match=r"eval_results\.jsonl: line 2 is damaged \(.+\): restore"):
            read()


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f.json"]


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr("os.fsync", lambda number: synced.append((tmp_path / "a").exists()))
    write_file(tmp_path / "a", b"x")
    assert synced == [False]


def test_nobody_can_guess_the_name_of_an_unfinished_file_and_put_a_link_there(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as first, replacing(tmp_path / "a") as second:
        assert first != second
        first.touch()
        second.touch()


def test_a_file_that_could_not_be_written_stays_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(b"before")

    def half() -> Any:
        with replacing(path) as temporary:
            temporary.write_bytes(b"half of i")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        half()
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f.json"]


ENDPOINT: dict[str, Any] = {"kind": "openai", "parameters": {"temperature": 0, "top_p": 1}, "fingerprint": "a"}


def of(target: dict[str, Any] | None = None, **fingerprints: str | None) -> RunFile:
    """A run that this target answered, judged by evaluators of these fingerprints."""
    entries = {name: EvaluatorEntry(type="judges.E", fingerprint=known) for name, known in fingerprints.items()}
    return RunFile(status="failed", target=target, evaluators=entries)


class Tone:
    """Stands for a judge."""

    judged, scoring_version, primary, metrics = True, 1, "tone", (Metric("tone", "count", (0, 5)),)

    def __init__(self) -> None:
        self.arguments = {"model": "m", "api_key": "abc"}

    def __call__(self, *, response: str) -> int:
        return len(response)


def test_an_evaluator_is_described_by_what_its_verdicts_depend_on() -> None:
    shipped = type("ShippedTone", (Tone,), {"__module__": "tunecheck.evaluators"})
    bound = [bind_evaluator(f"e{at}", each, {}) for at, each in enumerate((Tone(), shipped(), length))]
    own, built_in, function = (each.fingerprint for each in bound)
    arguments: dict[str, Any] = {"model": "m", "api_key": "***"}
    metrics = [MetricEntry("tone", "count", [0, 5])]
    kind = f"{__name__}.Tone"
    tone = EvaluatorEntry(arguments=arguments, primary="tone", metrics=metrics, type=kind, fingerprint=own, judge=own)
    judge = content_hash(["tunecheck.evaluators.ShippedTone", arguments])
    assert describe_evaluators(bound) == {
        "e0": tone,
        "e1": replace(tone, type="tunecheck.evaluators.ShippedTone", fingerprint=built_in, judge=judge),
        "e2": EvaluatorEntry(type="tests.pipeline_parts.length", arguments={}, fingerprint=function),
    }
    (bleu,) = describe_evaluators([bind_evaluator("bleu", BleuScoreEvaluator(), {})]).values()
    assert (bleu.type, bleu.metrics[0].range, bleu.judge) == ("tunecheck.BleuScoreEvaluator", [0.0, 1.0], None)


def test_a_target_and_a_mapping_are_described_as_users_write_them_without_secrets() -> None:
    target = Talking()
    target.describe = lambda: {"name": "t", "api_key": "abc"}  # type: ignore[method-assign]
    described = {"name": "t", "api_key": "***", "fingerprint": "1", "simulated": False}
    assert (manifest.describe_target(target), manifest.describe_target(None)) == (described, None)
    written: dict[str, Any] = {"question": "${data.q['a b']}", "count": 3, "text": "a"}
    assert manifest.describe_mapping({"e": parse_mapping(written, "e")}) == {"e": written}


def test_versions_go_on_after_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_SHOWN_VERSIONS", ("a package that nobody has", "msgspec"))
    assert versions() == {"python": platform.python_version(), "msgspec": msgspec.__version__}


class Talking(Answering):
    """A target whose answers form one conversation, so that a new run takes all or none of them."""

    answers_can_be_reused = False
    evaluators_may_change = True


READ: dict[str, Callable[[RunFile, Any], object]] = {
    "endpoint": lambda run, _: store.endpoint_of(run),
    "command": lambda run, _: store.command_of(run.command),
    "options": lambda run, _: store.recorded_values(run.command),
    "early end": lambda run, _: stopped_text(run.decision or None),
    "reuse": lambda run, now: reusable(run, convert(now, RunFile)),
    "resume": lambda run, now: resume_manifest("r", run, convert(now, RunFile), None),
    "resume a conversation": lambda run, now: resume_manifest("r", run, convert(now, RunFile), Talking()),
    "value": lambda run, given: value_reader(run, "truth", given[0])(*given[1:]),
    "settings": lambda run, _: manifest.kept_settings(run.target),
}


@cases("runs")
def test_run_json_tells_these_facts(fact: str, of: dict[str, Any], given: Any, told: Any) -> None:
    assert loads(dumps(outcome(READ[fact], convert(of, RunFile), given))) == told


def test_a_run_that_goes_on_is_written_in_the_format_of_today() -> None:
    before, now = RunFile(format_version=0, name="a", command={"limit": 1}), RunFile(evaluators={"e": EvaluatorEntry()})
    running = replace(before, status="running", format_version=now.format_version)
    assert resume_manifest("r", before, replace(now, evaluators={}), None) == running
    other = replace(before, evaluators={"e": EvaluatorEntry(fingerprint="old")})
    assert resume_manifest("r", other, now, Talking()) == replace(running, evaluators=now.evaluators)
    options = {"limit": 2}
    again = resume_manifest("r", other, replace(now, command=options), Talking())
    assert again == replace(running, evaluators=now.evaluators, command=options)


ASKED: dict[str, Callable[[Run], Any]] = {
    "rows": lambda run: list(run.rows()),
    "metrics": Run.metrics,
    "manifest": lambda run: run.manifest().status,
    "status": Run.status,
    "resuming": Run.resuming,
    "resuming all": lambda run: run.resuming(all_rows=True),
    "resuming there": lambda run: run.resuming(["--results-dir", "a b"], all_rows=True),
    "fails again": lambda run: run.fails_again,
}


@cases("runs")
def test_a_run_answers_by_its_files(cwd: Path, place: str, files: dict[str, Any], asked: str, answer: Any) -> None:
    (folder := cwd / place / "r").mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    assert outcome(ASKED[asked], Run(Path(place) / "r")) == answer


@cases("runs")
def test_of_these_runs_in_their_order_one_is_found(
    cwd: Path, runs: dict[str, Any], listed: Any, asked: str, found: str
) -> None:
    for name, content in runs.items():
        (cwd / "runs" / name).mkdir(parents=True)
        if content is not None:
            (cwd / "runs" / name / "run.json").write_text(json.dumps(content))
    assert [run.id for run in list_runs(Path("runs"))] == listed
    assert outcome(lambda: find_run(asked, Path("runs")).id) == found


def test_a_run_of_this_second_is_later_than_all_runs_though_the_clock_was_set_back(tmp_path: Path) -> None:
    made(tmp_path, "a-29990101T000000Z-aaaaaa", "a-29990101T000000Z-bbbbbb", A)[1].write(RunFile(created_ns=5 * 10**18))
    begun, created_ns = create_run(tmp_path, "a")
    assert (begun.id[:-6], created_ns) == ("a-29990101T000000Z-", 5 * 10**18 + 1)
    (file := tmp_path / "file").touch()
    said = r"-\d{8}T\d{6}Z-[0-9a-f]{6} cannot be made \(\w.+\): give another --results-dir \(results_dir=…\)$"
    with pytest.raises(ConfigurationError, match=f"^the run folder {re.escape(str(file / 'a'))}{said}"):
        create_run(file, "a")


def test_an_own_run_is_known_by_its_folder_and_what_it_depends_on(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cwd / "runs"
    own, *_, damaged = made(folder, *(f"a-2024010{day}T000000Z-aaaaaa" for day in range(1, 5)))
    signed = store.sign_manifest(RunFile(id="a", status="failed"))
    own.write(signed)
    damaged.manifest_file.write_text("{")
    changes = {"id": "b", "parent": "p", "command": {"limit": 1}, "mapping": {"m": {}}, "api": {"a": 1}, "status": ""}
    assert [name for name, value in changes.items() if store.began_here(replace(signed, **{name: value}))] == ["status"]
    for most, known in ((4, True), (3, False)):
        monkeypatch.setattr(store, "_MOST_RUNS_CHECKED", most)
        assert store.holds_own_run(folder) is known
    monkeypatch.chdir(folder)
    assert not store.began_here(signed)


def test_a_mirror_is_known_by_its_folder_and_completed_before_its_run_is_used(
    cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNECHECK_CACHE", str(cwd))
    folder = mirror_folder("az://c/X/", "account")
    assert folder == cwd / "results" / hashlib.sha256(b"az://c/X\naccount").hexdigest()[:16]
    (mirrored, elsewhere) = (*made(folder, A), *made(cwd / "runs", B))
    told: list[str] = []
    monkeypatch.setattr(store, "open_mirror", lambda at: SimpleNamespace(complete=lambda run: told.append(at + run)))
    for state, seen in (("{", []), ('{"address": 1}', []), ('{"address": "az://c/p"}', [f"az://c/p{A}"])):
        for place in (folder, cwd / "runs"):
            (place / MIRROR_STATE).write_text(state)
        assert (find_run(A, folder), find_run(B, cwd / "runs")) == (mirrored, elsewhere)
        assert told == seen


def test_storage_is_opened_by_the_plug_in_of_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "discover", lambda kind: [SimpleNamespace(name=f"{kind}{n}") for n in (1, 2)])
    monkeypatch.setattr(plugins, "find", lambda kind, scheme: f"{kind} {scheme} {{}}".format)
    assert outcome(open_mirror, "MIRRORS2://a") == "mirrors mirrors2 MIRRORS2://a"
    offered = "give a folder, or an address of mirrors1://, mirrors2://"
    assert outcome(open_mirror, "S3://mirrors1://a") == f"storage at s3:// is not supported: {offered}"


def test_a_calibration_is_kept_beside_the_runs_by_its_judge(cwd: Path) -> None:
    judge = "0123456789abcdef"
    first = JudgeCalibration(judge=judge, evaluator="e", run="r", created="", labels=[])
    entry = EvaluatorEntry(judge=judge)
    assert (find_calibration(cwd, judge), store.is_uncalibrated(cwd, entry)) == (None, True)
    assert not store.is_uncalibrated(cwd, EvaluatorEntry())
    for kept in (first, replace(first, run="again")):
        assert save_calibration(Path(), kept) == Path("judges") / f"{judge}.json"
        assert find_calibration(cwd, judge) == kept
    assert not store.is_uncalibrated(cwd, entry)
    assert [find_calibration(cwd, name) for name in (None, f"../judges/{judge}")] == [None, None]
    path = Path("judges", f"{judge}.json")
    newer = "a newer Tunecheck wrote this file (format_version 9; this version reads at most 1): update tunecheck"
    for text, said in (('{"judge": 1}', "judge: must be a text, not a whole number"), ('{"format_version": 9}', newer)):
        path.write_text(text)
        assert outcome(find_calibration, Path(), judge) == f"{path}: {said}"
    Path("file").touch()
    assert re.fullmatch(
        r"file\Wjudges\W0\w+\.json: run r is finished, but this file cannot be written: \w.+",
        outcome(save_calibration, Path("file"), first),
    )


def test_files_for_people_have_a_line_for_each_value() -> None:
    assert dumps_readably({"a": [1], "b": "é"}).decode() == '{\n  "a": [\n    1\n  ],\n  "b": "é"\n}\n'
    assert dumps_readably({"a": "\ud800"}) == b'{"a":"\\ud800"}\n'
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", store.utc_now().isoformat())
