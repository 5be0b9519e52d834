"""checks/goodai_replay.py: what it says, how it exits, and where it takes the memory span from."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from checks.goodai_replay import main
from checks.goodai_run import LogEvent, log_events, log_line, read_log
from tests.cli_parts import Said
from tests.memory_core_parts import logged, replayable_runs, run, settings

from tunecheck_memory import (
    Begin,
    Consult,
    Deregister,
    Effect,
    End,
    EventType,
    Jump,
    MemoryTest,
    Outcome,
    Points,
    Register,
    ResetAgent,
    Send,
    SuiteReset,
    Test,
    Wait,
    Waiting,
    find_kind,
    load_filler,
    load_tokenizer,
    load_wording,
    write_definitions,
)

COLOURS = MemoryTest(
    "Colours",
    "0",
    ("Red is my favourite.", "Which is my favourite?"),
    (False, True),
    (Wait(percentage=90), Wait()),
    ["Red"],
)
NAMES = MemoryTest("Names", "0", ("I am Ada.", "Who am I?"), (False, True), (Wait(percentage=50), Wait()), ["Ada"])
NAME_LIST = MemoryTest(
    "NameList", "0", ("I am Eve.", "List my names."), (False, True), (Wait(percentage=50), Wait()), ["Eve"]
)
KINDS = {kind.title: kind for kind in map(find_kind, ("colours", "names", "name_list"))}
CONFIG = "config: {run_name: mine}\ndatasets:\n  args: {memory_span: 500}\n  datasets:\n    - name: colours\n"

OURS = settings(500, wording=load_wording(), filler=load_filler(), tokenizer=load_tokenizer())


def events(*definitions: MemoryTest, memory_span: int = 500, **more: object) -> list[LogEvent]:
    tests = [Test(each, KINDS[each.title]) for each in definitions]
    return logged(run(tests, replace(OURS, memory_span=memory_span, **more)))  # type: ignore[arg-type]


def benchmark(
    folder: Path,
    logged_events: list[LogEvent],
    *definitions: MemoryTest,
    name: str = "Benchmark",
    config: str | None = CONFIG,
) -> Path:
    """A benchmark's folder with one agent's results; gives these."""
    place = folder / name
    write_definitions(definitions or [COLOURS], place / "definitions")
    if config is not None:
        (place / "definitions" / "config.yml").write_text(config, "utf-8")
    run_dir = place / "results" / "agent"
    run_dir.mkdir(parents=True)
    (run_dir / "master_log.jsonl").write_bytes(b"".join(map(log_line, logged_events)))
    return run_dir


def replay(capsys: pytest.CaptureFixture[str], run_dir: Path, *more: str) -> Said:
    code = main([str(run_dir), *more])
    printed = capsys.readouterr()
    return Said(code, printed.out, printed.err)


def test_an_identical_run_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = replay(capsys, benchmark(tmp_path, events(COLOURS)))
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("identical: ") and "memory span 500 from " in said.out


def test_the_first_difference_is_shown_and_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = events(COLOURS)
    place = next(place for place, event in enumerate(changed) if event.text == COLOURS.script[0])
    changed[place] = replace(changed[place], text="Blue is my favourite.\x1b[2J")
    said = replay(capsys, benchmark(tmp_path, changed))
    assert said.code == 3
    assert f"first difference: event {place + 1}, line {place + 1} of " in said.out
    assert "Blue is my favourite." in said.out and "Red is my favourite." in said.out
    assert "\x1b" not in said.out


def test_incompatibilities_follow_configuration_or_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    apart = events(NAMES, NAME_LIST, by_topics=True)
    together = events(NAMES, NAME_LIST, by_topics=False)
    declared = CONFIG.replace("config: {", "config: {incompatibilities: [[names, name_list, kv]], ")
    assert apart != together
    for name, log, config in [("a 1k", apart, declared), ("b", together, CONFIG), ("c", apart, None)]:
        run_dir = benchmark(tmp_path / name, log, NAMES, NAME_LIST, config=config)
        more = ["--memory-span", "500"] if config is None else []
        assert replay(capsys, run_dir, *more).code == 0, name


def test_a_run_of_ours_says_the_seed_of_its_filler_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = CONFIG.replace("run_name: mine", "run_name: mine, isolated: false").replace("500", "500, seed: 5")
    assert replay(capsys, benchmark(tmp_path / "ours", events(COLOURS, seed=5), config=ours)).code == 0
    # A configuration of the reference may have a seed as well, its data sets': its filler has always the same.
    theirs = ours.replace(", isolated: false", "")
    assert replay(capsys, benchmark(tmp_path / "theirs", events(COLOURS), config=theirs)).code == 0


def test_a_run_that_was_taken_up_is_the_same_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = events(COLOURS)
    again = next(place for place, event in enumerate(log) if event.type == 7)
    place = next(place for place, event in enumerate(log) if event.type == 6) + 1
    said = replay(capsys, benchmark(tmp_path, [*log[:place], log[again], *log[place:]]))
    assert said.code == 0
    assert "interrupted and resumed 1 time" in said.out


# -- the reference's log: read, written again to the byte where it was ours, and refused with its line


def read(folder: Path, text: str) -> tuple[LogEvent, ...]:
    file = folder / "master_log.jsonl"
    file.write_text(text, "utf-8")
    return read_log(file).events


@pytest.mark.parametrize("number", range(7))
def test_a_published_log_says_the_same_when_it_is_written_again(shared_data: Path, number: int) -> None:
    file = replayable_runs(shared_data)[number] / "master_log.jsonl"
    again = [json.loads(log_line(event)) for event in read_log(file).events]
    assert again == [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


EFFECTS: list[tuple[Effect, list[EventType]]] = [
    (Send("", "hello"), [EventType.SEND_FILL, EventType.RESPONSE_FILL]),
    (Send("A - 0", "hello", question=True), [EventType.SEND_MESSAGE, EventType.RESPONSE_MESSAGE]),
    (Consult("A - 0", "notice", {}), [EventType.LLM_CALL]),
    (Begin("A - 0", 5), [EventType.BEGIN]),
    (End("A - 0", Points(1, 2, ())), [EventType.END]),
    (Waiting("A - 0", 5, 90_000), [EventType.WAIT]),
    (Register("A - 0"), [EventType.REGISTER_CALLBACK]),
    (Deregister("A - 0"), [EventType.DEREGISTER_CALLBACK]),
    (SuiteReset(), [EventType.SUITE_RESET]),
    (Jump(9), []),
    (ResetAgent("A - 0"), []),
]


@pytest.mark.parametrize(("effect", "kinds"), EFFECTS)
def test_each_effect_has_its_events(effect: Effect, kinds: list[EventType]) -> None:
    events = list(log_events(effect, 100, Outcome(200, "yes")))
    assert [event.type for event in events] == kinds
    assert all(event.at_us in (100, 200) for event in events)
    if isinstance(effect, Send):
        assert [event.at_us for event in events] == [100, 200]
        assert [event.text for event in events] == ["hello", "yes"]
