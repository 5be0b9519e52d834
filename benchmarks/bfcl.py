"""The BFCL table: `python benchmarks/bfcl.py [--quick]`, ours and the reference in one run, as Markdown.

The reference, `bfcl-eval`, is installed into environments of its own, its data unpacked from its wheel. The published
runs are looked for in `$TUNECHECK_TEST_DATA/bfcl_runs` (or in ../shared/data). Both sides take turns, so that a noisy
neighbour meets both, and of each the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import conversations
import pytest
from conversations import Line, print_head, print_line

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.bfcl_check_parts import as_text, as_tools, entries, files, read_call  # noqa: E402
from tests.bfcl_reference import VERSION, reference_python  # noqa: E402

CATEGORIES = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param")
SCORED = (*CATEGORIES, "multi_turn_long_context")

PASSES = 4
"""How often a process goes through the conversations; the first time, with imports still to do, does not count."""


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="each once, and fewer conversations: to see that it works")
    quick = parser.parse_args().quick
    rounds = 1 if quick else 5
    print_head(f"bfcl-eval {VERSION}")
    with tempfile.TemporaryDirectory() as folder:
        print_line(_conversations(Path(folder), "tools", rounds))
        print_line(_conversations(Path(folder), "text", rounds))
        for result in _published():
            print_line(_command(Path(folder), result, rounds))
    for line in conversations.lines(quick=quick):
        print_line(line)


def _reference(*, command: bool = False) -> Path | None:
    """The reference's python; None where it cannot be installed."""
    try:
        return reference_python(command=command)
    except pytest.skip.Exception as reason:
        print(f"without the reference: {reason}", file=sys.stderr)
        return None


def _conversations(folder: Path, mode: str, rounds: int) -> Line:
    """Scoring the ground truth of four categories, in one process."""
    cases = folder / "cases.jsonl"
    count = _write_cases(cases)
    python = _reference()
    given = [str(cases), mode, str(PASSES)]
    ours = [sys.executable, str(HERE / "cases_bfcl_ours.py"), *given, str(files().package)]
    theirs = [str(python), "-W", "ignore", str(HERE / "cases_bfcl.py"), "conversations", *given]
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds):
        for found, command in zip(seconds, [ours, theirs] if python else [ours], strict=False):
            figures = json.loads(_output(command).splitlines()[-1])
            assert figures["valid"] == count, figures
            found.extend(figures["seconds"][1:])
    what = f"scoring {count} conversations that are the ground truth, {'JSON' if mode == 'tools' else 'text'} calls"
    return _compared(f"{what}, one process, after import", 0.5, *seconds)


def _write_cases(path: Path) -> int:
    lines = []
    for category in SCORED:
        for row in entries(category).values():
            truth: Any = row["ground_truth"]
            calls = [[call for text in turn if (call := read_call(text))] for turn in truth]
            case: dict[str, object] = {"category": category, "entry": dict(row)}
            for mode, write in (("tools", as_tools), ("text", as_text)):
                steps: Callable[[Sequence[tuple[str, dict[str, object]]]], object] = write
                case[mode] = [[steps([call]) for call in turn] for turn in calls]
            lines.append(json.dumps(case) + "\n")
    path.write_text("".join(lines), "utf-8")
    return len(lines)


def _published() -> list[Path]:
    """The folders of models' results in the published runs."""
    shared = Path(os.environ.get("TUNECHECK_TEST_DATA", HERE.parent.parent / "shared" / "data"))
    found = sorted((shared / "bfcl_runs").glob("*/result/*"))
    if not found:
        print(f"no published runs in {shared}", file=sys.stderr)
    return found


def _command(folder: Path, result: Path, rounds: int) -> Line:
    """The commands that score three categories of a published run, from start to finish."""
    python = _reference(command=True)
    copy = str(files().package)
    ours = [sys.executable, "-m", "tunecheck", "bfcl", "score", str(result / "multi_turn"), "--data", copy]
    theirs = [str(python), "-W", "ignore", str(HERE / "cases_bfcl.py"), "command"]
    theirs += [str(result.parent), result.name, ",".join(CATEGORIES)]
    seconds: list[list[float]] = [[], []]
    for number in range(rounds + 1):
        outs = [folder / f"{side}-{result.name}-{number}" for side in ("ours", "theirs")]
        for found, command, out in zip(seconds, [[*ours, "--out"], theirs] if python else [ours], outs, strict=False):
            started = time.perf_counter()
            _output([*command, str(out)])
            found.append(time.perf_counter() - started)
        if python:
            assert _our_correct(outs[0]) == _their_correct(outs[1])
    warm = [found[1:] for found in seconds]  # the first fills the disk's cache, and compiles
    what = f"the three multi-turn categories of {result.name} ({result.parent.parent.name})"
    return _compared(f"{what}, from the command line, start to finish", 0.3, *warm)


def _our_correct(out: Path) -> dict[str, int]:
    verdicts = {each: (out / f"{each}.verdicts.jsonl").read_text("utf-8").splitlines() for each in CATEGORIES}
    return {each: sum(json.loads(line)["valid"] is True for line in lines) for each, lines in verdicts.items()}


def _their_correct(out: Path) -> dict[str, int]:
    heads = {each: next(out.glob(f"*/*/*_{each}_score.json")).open().readline() for each in CATEGORIES}
    return {each: json.loads(head)["correct_count"] for each, head in heads.items()}


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def _compared(what: str, most: float, ours: Sequence[float], theirs: Sequence[float]) -> Line:
    must = f"≤ {most} × the reference's time"
    if not theirs:
        return Line(what, must, f"{statistics.median(ours):.2f} s", "not here", None)
    ratio = statistics.median(ours) / statistics.median(theirs)
    return Line(what, must, f"{_span(ours)} ({ratio:.2f} ×)", _span(theirs), ratio <= most)


def _span(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


if __name__ == "__main__":
    main()
