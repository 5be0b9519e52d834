"""`tunecheck memory replay`: whether a logged run is what our scheduler makes of its replies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tunecheck.cli._parameters import Debug, Json

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.memory._goodai.replay import Replayed
    from tunecheck.memory._goodai.run import LegacyRun

DONE, DIFFERENT = 0, 3

_SHOWN = 400
"""Most characters of an event that are shown."""

_BEFORE = 80

Run = Annotated[
    Path,
    typer.Argument(metavar="RUN_DIR", help="A run's folder, <benchmark>/results/<agent>, with its master_log.jsonl."),
]
Filler = Annotated[
    Path | None,
    typer.Option(
        "--filler", metavar="FILE", help="The pool of its filler, e.g. trivia.json; by default the one that ships."
    ),
]
Wording = Annotated[
    Path | None,
    typer.Option("--wording", metavar="FILE", help="The wording it was run with; by default the one that ships."),
]
Definitions = Annotated[
    Path | None,
    typer.Option("--definitions", metavar="DIR", help="Its definitions; by default <benchmark>/definitions."),
]
Configuration = Annotated[
    Path | None,
    typer.Option(
        "--configuration",
        metavar="FILE",
        help="Memory span and incompatibilities; by default config.yml in the definitions' folder, without one the "
        "span in the benchmark's name ('Benchmark 3 - 32k': 32,000) and the kinds' topics.",
    ),
]
Span = Annotated[
    int | None,
    typer.Option("--memory-span", metavar="TOKENS", min=1, help="The memory span, over what a configuration says."),
]
Tokens = Annotated[
    str, typer.Option("--tokenizer", metavar="NAME", help="What tokens were counted with: cl100k_base or o200k_base.")
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="The seed of its filler; by default a run of ours says it, else 0."),
]
Largest = Annotated[
    int | None,
    typer.Option(
        "--max-message-tokens",
        metavar="N",
        min=1,
        help="The largest filler message; by default 4,096, else what the log shows.",
    ),
]
Unfinished = Annotated[
    bool, typer.Option("--unfinished", help="Take a log that ends too early for one that is the same so far.")
]


def replay(
    run: Run,
    filler: Filler = None,
    wording: Wording = None,
    definitions: Definitions = None,
    configuration: Configuration = None,
    memory_span: Span = None,
    tokenizer: Tokens = "cl100k_base",
    seed: Seed = None,
    max_message_tokens: Largest = None,
    unfinished: Unfinished = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Replay a logged run: the same replies must give the same events.

    Every message, filler included, wait, callback and end is compared, in order. Exits with 0 when all are the same,
    else with 3 and the first difference. Runs that were interrupted and taken up again are replayed by the rules of
    the reference.
    """
    from tunecheck.memory._filler import load_filler
    from tunecheck.memory._goodai.replay import replay_any_size
    from tunecheck.memory._goodai.run import read_legacy_run
    from tunecheck.memory._tokens import load_tokenizer
    from tunecheck.memory._wording import load_wording

    legacy = read_legacy_run(run, definitions=definitions, configuration=configuration, memory_span=memory_span)
    replayed, size = replay_any_size(
        legacy,
        wording=load_wording(wording),
        filler=load_filler(filler),
        tokenizer=load_tokenizer(tokenizer),
        seed=seed,
        max_message_tokens=max_message_tokens,
    )
    same = replayed.difference is None or (unfinished and replayed.difference.logged is None)
    report = _report(legacy, replayed, same, size)
    if json:
        _write_json(report)
    else:
        _print(legacy, replayed, same, given=bool(wording and filler))
    return DONE if same else DIFFERENT


def _report(legacy: LegacyRun, replayed: Replayed, same: bool, size: int) -> dict[str, JSON]:
    difference = replayed.difference
    return {
        "identical": same,
        "events": replayed.events,
        "logged_events": len(legacy.log.events),
        "messages": replayed.messages,
        "taken_up": replayed.taken_up,
        "memory_span": legacy.memory_span,
        "isolated": legacy.isolated,
        "max_message_tokens": size,
        "torn": legacy.log.torn,
        "difference": None
        if difference is None
        else {
            "event": replayed.events + 1,
            "line": difference.logged.line if difference.logged else None,
            "logged": difference.logged.says() if difference.logged else None,
            "ours": difference.ours.says() if difference.ours else None,
        },
    }


def _print(legacy: LegacyRun, replayed: Replayed, same: bool, *, given: bool) -> None:
    from tunecheck._messages import counted

    print(
        f"{'identical' if same else 'not identical'}: {counted(replayed.events, 'event')}, "
        f"{counted(replayed.messages, 'message')}{_notes(legacy, replayed)}"
    )
    if replayed.difference is None:
        return
    _print_difference(legacy, replayed, same)
    if not same and not given:
        print(
            "note: a run needs the texts that it was run with; the reference's are not those that ship: "
            "give --wording and --filler, and --configuration where it names kinds of tests of your own",
            file=sys.stderr,
        )


def _notes(legacy: LegacyRun, replayed: Replayed) -> str:
    from tunecheck._messages import counted

    notes = ["" if legacy.isolated else f"memory span {legacy.memory_span:,} from {legacy.span_from}"]
    if replayed.taken_up:
        notes.append(f"interrupted and taken up {counted(replayed.taken_up, 'time')}")
    if legacy.log.torn:
        notes.append("the last line of the log broke off")
    said = "; ".join(filter(None, notes))
    return f" ({said})" if said else ""


def _print_difference(legacy: LegacyRun, replayed: Replayed, same: bool) -> None:
    from tunecheck._messages import clean

    assert replayed.difference is not None
    logged, ours = replayed.difference.logged, replayed.difference.ours
    where = f"line {logged.line}" if logged else "the end"
    what = "the same so far" if same else "first difference"
    print(f"{what}: event {replayed.events + 1:,}, {where} of {legacy.log.name}")
    theirs, own = _from_where_they_differ(logged.says() if logged else "", ours.says() if ours else "")
    print(f"  the log: {clean(theirs, _SHOWN) if logged else 'ends here'}")
    print(f"  ours:    {clean(own, _SHOWN) if ours else 'all tests are over'}")


def _from_where_they_differ(one: str, other: str) -> tuple[str, str]:
    """Both, without what is the same in the middle of long ones."""
    shorter = min(len(one), len(other))
    same = next((place for place in range(shorter) if one[place] != other[place]), shorter)
    if same < 2 * _BEFORE:
        return one, other
    start = f"{one[:_BEFORE]} … "
    return start + one[same - _BEFORE // 2 :], start + other[same - _BEFORE // 2 :]


def _write_json(report: dict[str, JSON]) -> None:
    from tunecheck._json import dumps_line

    sys.stdout.write(dumps_line(report).decode("utf-8"))
