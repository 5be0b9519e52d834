"""`tunecheck memory replay`: whether a logged run is what our scheduler makes of its replies."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._messages import clean, counted
from tunecheck._trust import Trust
from tunecheck.cli._console import print_json
from tunecheck.cli._invocation import DONE, NOT_MET, Invocation
from tunecheck.cli._options import argument, command, flag, option
from tunecheck.cli._shared_options import JsonOptions, TrustOptions

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck_memory._goodai.replay import Replayed
    from tunecheck_memory._goodai.run import LegacyRun

_SHOWN, _BEFORE = 400, 80  # characters of an event, and of what stands before the first difference


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(JsonOptions, TrustOptions):
    run: Path = argument("A run's folder, <benchmark>/results/<agent>, with its master_log.jsonl.", "RUN_DIR")
    filler: Path | None = option("The pool of its filler, e.g. trivia.json; by default the one that ships.", "FILE")
    wording: Path | None = option("The wording it was run with; by default the one that ships.", "FILE")
    definitions: Path | None = option("Its definitions; by default <benchmark>/definitions.", "DIR")
    configuration: Path | None = option(
        "Memory span and incompatibilities; by default config.yml in the definitions' folder, without one the "
        "span in the benchmark's name ('Benchmark 3 - 32k': 32,000) and the kinds' topics.",
        "FILE",
    )
    memory_span: int | None = option("The memory span, over what a configuration says.", "TOKENS", least=1)
    tokenizer: str = option("What tokens were counted with: cl100k_base or o200k_base.", "NAME", default="cl100k_base")
    seed: int | None = option("The seed of its filler; by default a run of ours says it, else 0.", "N")
    max_message_tokens: int | None = option(
        "The largest filler message; by default 4,096, else what the log shows.", "N", least=1
    )
    unfinished: bool = flag("Take a log that ends too early for one that is the same so far.")


@command(ReplayOptions)
def replay(options: ReplayOptions, invocation: Invocation) -> int:
    """Replay a logged run: the same replies must give the same events.

    Every message, filler included, wait, callback and end is compared, in order. Exits with 0 when all are the same,
    else with 3 and the first difference. Runs that were interrupted and resumed again are replayed by the rules of
    the reference.
    """
    from tunecheck_memory._filler import load_filler
    from tunecheck_memory._goodai.replay import replay_run
    from tunecheck_memory._goodai.run import read_legacy_run
    from tunecheck_memory._scheduler import MAX_MESSAGE_TOKENS
    from tunecheck_memory._tokens import load_tokenizer
    from tunecheck_memory._wording import load_wording

    trust, configuration = Trust.of_command(options.trust or ()), options.configuration
    legacy = read_legacy_run(
        options.run,
        definitions=options.definitions,
        configuration=configuration,
        memory_span=options.memory_span,
        trust=None if configuration is None else trust.of_options(configuration),
    )
    settings = legacy.settings(
        load_wording(options.wording),
        load_filler(options.filler),
        load_tokenizer(options.tokenizer),
        seed=options.seed,
        max_message_tokens=options.max_message_tokens or MAX_MESSAGE_TOKENS,
    )
    replayed, size = replay_run(legacy, settings, other_sizes=options.max_message_tokens is None)
    same = replayed.difference is None or (options.unfinished and replayed.difference.logged is None)
    if options.json:
        print_json(_report(legacy, replayed, same, size))
    else:
        _print(legacy, replayed, same, given=bool(options.wording and options.filler))
    return DONE if same else NOT_MET


def _report(legacy: LegacyRun, replayed: Replayed, same: bool, size: int) -> dict[str, JSON]:
    difference = replayed.difference
    return {
        "identical": same,
        "events": replayed.events,
        "logged_events": len(legacy.log.events),
        "messages": replayed.messages,
        "taken_up": replayed.resumed,
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
    notes = ["" if legacy.isolated else f"memory span {legacy.memory_span:,} from {legacy.span_from}"]
    if replayed.resumed:
        notes.append(f"interrupted and resumed {counted(replayed.resumed, 'time')}")
    if legacy.log.torn:
        notes.append("the last line of the log broke off")
    said = "; ".join(filter(None, notes))
    return f" ({said})" if said else ""


def _print_difference(legacy: LegacyRun, replayed: Replayed, same: bool) -> None:
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
