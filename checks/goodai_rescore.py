"""Score recorded tests of the GoodAI LTM Benchmark again, by rules on words alone.

    python checks/goodai_rescore.py recorded.jsonl --out rescored.jsonl [--compat]

Writes each row again, in order, with `our_score` and `our_reasons`; `our_score` is null where only a judge can tell.
A row has `dataset` (a title or name), `expected`, `responses`, and optionally `kind` (a group in the table),
`questions` or `question`, `script`, `log_from_question` (lines "Agent (time): …") or `since_question`.
`--compat` scores as the benchmark does.
Exits with 0, with 1 if no row can be scored, and with 2 for wrong use.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from rich.table import Table

if __name__ == "__main__":  # a script's folder is on the path, the repository is not
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from checks.goodai_rules import score_as_benchmark

from tunecheck._describe import shown_value
from tunecheck._errors import ConfigurationError, DataError, TunecheckError, raise_as
from tunecheck._json import JSON, dumps_line, loads, real_number
from tunecheck._messages import clean
from tunecheck.views import console
from tunecheck_memory import FinishedTest, UndecidedError, judge_by_words

MAX_LINE_BYTES = 64 << 20
"""Longest line that is read; the longest recorded row has 40 KB."""

_AGENT = re.compile(r"Agent \([^)\n]{0,80}\):[ ]?")
_NEAR = 1e-9
_MOST_ERRORS = 20
_MOST_GROUPS = 200
_MOST_SCORE = 1e9
_OURS = ("our_score", "our_reasons", "our_error")


@dataclass(frozen=True, slots=True)
class Rescored:
    """A row as it is written; `error` says why it could not be scored at all."""

    row: dict[str, JSON]
    score: float | None = None
    error: str | None = None


@dataclass(slots=True)
class Tally:
    """The rows of one data set and kind; `compared` have a score of both."""

    rows: int = 0
    scored: int = 0
    undecided: int = 0
    errors: int = 0
    compared: int = 0
    equal: int = 0

    def add(self, rescored: Rescored) -> None:
        self.rows += 1
        if rescored.error is not None:
            self.errors += 1
            return
        ours, recorded = rescored.score, real_number(rescored.row.get("score"))
        self.scored += ours is not None
        self.undecided += ours is None
        if ours is not None and recorded is not None and abs(recorded) <= _MOST_SCORE:
            self.compared += 1
            self.equal += abs(ours - recorded) < _NEAR

    def as_json(self) -> dict[str, JSON]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Summary:
    """Tallies by data set and kind, and the first errors."""

    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def add(self, rescored: Rescored) -> None:
        dataset, kind = (str(rescored.row.get(name) or "")[:80] for name in ("dataset", "kind"))
        group = (dataset, kind)
        if group not in self.tallies and len(self.tallies) >= _MOST_GROUPS:
            group = ("others", "")
        self.tallies.setdefault(group, Tally()).add(rescored)
        if rescored.error is not None and len(self.errors) < _MOST_ERRORS:
            self.errors.append(rescored.error)

    def count(self, name: str) -> int:
        return sum(getattr(tally, name) for tally in self.tallies.values())


def rescore_file(path: Path, out: Path, *, compat: bool = False) -> Summary:
    """Score every row of a file again and write them, in order, to another.

    A line that is not a row (not JSON, no object, no data set) is written with `our_score` null and `our_error`, which
    names file and line: the output has a row for each that is not blank. `out` appears when it is complete, unless it
    is a device or a pipe, such as /dev/stdout.

    Raises:
        ConfigurationError: the file is not there, cannot be read, or is the one to be written; `out` cannot be.
    """
    if out.is_dir():
        raise ConfigurationError(f"{out}: is a folder; name a file, --out OUT.jsonl")
    if out.exists() and path.exists() and out.samefile(path):
        raise ConfigurationError(f"{out}: is the file that is read; name another --out")
    whole = not out.exists() or out.is_file()
    part = out.with_name(f"{out.name}.{os.getpid()}.part") if whole else out
    summary = Summary()
    with raise_as(ConfigurationError, path):
        rows = path.open("rb")
    with rows, raise_as(ConfigurationError, out, "cannot be written"):
        try:
            with part.open("wb") as file:
                for number, line in _lines(rows):
                    rescored = rescore_line(line, where=f"{path}, line {number}", compat=compat)
                    summary.add(rescored)
                    file.write(dumps_line(rescored.row))
            if whole:
                part.replace(out)
        finally:
            if whole:
                part.unlink(missing_ok=True)
    return summary


def _lines(rows: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Each line that is not blank, with its number; None in place of one that is too long."""
    number = 0
    while line := rows.readline(MAX_LINE_BYTES):
        number += 1
        whole = line.endswith(b"\n") or len(line) < MAX_LINE_BYTES
        while not whole:
            rest = rows.readline(MAX_LINE_BYTES)
            whole = rest.endswith(b"\n") or not rest
            line = b""
        if line == b"":
            yield number, None
        elif line.strip(b" \t\r\n\xef\xbb\xbf"):
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def rescore_line(line: bytes | None, *, where: str, compat: bool = False) -> Rescored:
    """One line of a file scored again; never raises."""
    try:
        if line is None:
            raise DataError(f"longer than {MAX_LINE_BYTES >> 20} MiB")
        row = loads(line)
        if not isinstance(row, dict):
            raise DataError(f"a row must be an object, not {shown_value(row)}")
        dumps_line(row)  # what cannot be written again is said here, not when the file is half written
    except (DataError, ValueError, TypeError) as error:
        return _failed({}, f"{where}: {error}")
    return rescore_row(row, where=where, compat=compat)


def rescore_row(row: Mapping[str, JSON], *, where: str = "row", compat: bool = False) -> Rescored:
    """A row with `our_score` (null where words do not suffice) and `our_reasons` behind its own keys; never raises.

    In the compatible mode, the rules of this project stand in where the benchmark asks a model or breaks down; the
    reasons then say so.
    """
    own = {name: value for name, value in row.items() if name not in _OURS}
    try:
        given = given_of_row(own)
    except DataError as error:
        return _failed(own, f"{where}: {error}")
    reasons: tuple[str, ...] = ()
    try:
        try:
            scored = score_as_benchmark(given) if compat else judge_by_words(given)
        except UndecidedError as error:
            if not compat:
                raise
            reasons = (f"compatible: {error}",)
            scored = judge_by_words(given)
    except UndecidedError as error:
        return Rescored({**own, "our_score": None, "our_reasons": [str(error)]})
    score = float(scored.score)
    return Rescored({**own, "our_score": score, "our_reasons": [*scored.reasons, *reasons]}, score)


def _failed(row: dict[str, JSON], error: str) -> Rescored:
    return Rescored({**row, "our_score": None, "our_reasons": [], "our_error": error}, error=error)


def given_of_row(row: Mapping[str, JSON]) -> FinishedTest:
    """What a row is scored by.

    Raises:
        DataError: it says neither which data set it is of, nor what was replied.
    """
    title = row.get("dataset")
    if not isinstance(title, str) or not title.strip():
        raise DataError('the row does not say its data set: "dataset" must be a text')
    expected, responses = row.get("expected"), row.get("responses")
    if not isinstance(responses, (list, str)):
        raise DataError('the row has no list of "responses"')
    log = ((line, _AGENT.match(line)) for line in _texts(row.get("log_from_question")))
    since_question = [line[agent.end() :] for line, agent in log if agent is not None]
    return FinishedTest(
        title=title,
        expected=expected if isinstance(expected, list) else [] if expected is None else [expected],
        responses=[responses] if isinstance(responses, str) else _texts(responses),
        questions=_texts(row.get("questions")) or _texts([row.get("question")]),
        since_question=_texts(row.get("since_question")) or since_question,
        script=_texts(row.get("script")),
    )


def _texts(value: JSON) -> Sequence[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; gives its exit code."""
    parser = argparse.ArgumentParser(description="Score recorded memory tests again, by rules on words alone.")
    parser.add_argument("file", type=Path, help="Recorded rows: data set, expected, responses, score.")
    parser.add_argument("--out", type=Path, required=True, help="The file for the rows with our_score added.")
    parser.add_argument(
        "--compat", action="store_true", help="Score as the GoodAI LTM Benchmark, its defects included."
    )
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    options = parser.parse_args(arguments)
    try:
        summary = rescore_file(options.file, options.out, compat=options.compat)
    except TunecheckError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        groups: list[JSON] = [
            {"dataset": title, "kind": kind, **tally.as_json()}
            for (title, kind), tally in sorted(summary.tallies.items())
        ]
        sys.stdout.write(dumps_line({"out": str(options.out), "groups": groups, "errors": [*summary.errors]}).decode())
    else:
        _print_table(summary)
        print(f"written {options.out}")
    for problem in summary.errors:
        print(f"note: {problem}", file=sys.stderr)
    rows, errors = summary.count("rows"), summary.count("errors")
    return 1 if rows and rows == errors else 0


def _print_table(summary: Summary) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("data set", "kind"):
        table.add_column(name)
    for name in ("rows", "scored", "undecided", "errors", "as recorded"):
        table.add_column(name, justify="right")
    for (title, kind), tally in sorted(summary.tallies.items()):
        equal = f"{tally.equal:,} of {tally.compared:,}" if tally.compared else "–"
        counts = (tally.rows, tally.scored, tally.undecided, tally.errors)
        table.add_row(clean(title, 60) or "–", clean(kind, 40) or "–", *(f"{count:,}" for count in counts), equal)
    console(sys.stdout).print(table)


if __name__ == "__main__":
    sys.exit(main())
