"""`tunecheck datasets get` and `datasets check`: fetch a benchmark's data, and try out a multi-turn data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tunecheck.cli._parameters import Debug, Json

if TYPE_CHECKING:
    from tunecheck.datasets._multi_turn.entry import Finding

BENCHMARKS = ("bfcl", "trivia")

TRIVIA = Path("datasets/trivia.jsonl")
"""Where the questions for a memory run's filler go, below the workspace."""

_DONE, _NOT_MET = 0, 3

Benchmark = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="bfcl: the Berkeley Function-Calling Leaderboard. trivia: questions for memory runs."
    ),
]
To = Annotated[
    Path | None,
    typer.Option(
        "--to", metavar="PATH", help=f"Where to put it; by default the user's cache, for trivia the file {TRIVIA}."
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="PATH",
        help="bfcl: a wheel, an unpacked one or a clone, instead of the package index. trivia: one of TriviaQA's "
        "files, or any JSON of questions and answers.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="trivia: replace the file if it is there.")]
Data = Annotated[str, typer.Argument(metavar="FILE", help="Multi-turn rows: a file, or e.g. bfcl:multi_turn_base.")]
Copy = Annotated[
    Path | None, typer.Option("--bfcl", metavar="DIR", help="A copy of BFCL, for rows that ask for long context.")
]
Remarks = Annotated[bool, typer.Option("--remarks", help="List what an entry can be right in spite of, too.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N rows.")]


def get(name: Benchmark, to: To = None, source: From = None, overwrite: Overwrite = False, debug: Debug = False) -> int:
    """Fetch a benchmark's data, from the package index, without its dependencies, and without running any of it.

    With trivia: turn a file of questions and answers into filler for memory runs.
    """
    from tunecheck._errors import ConfigurationError
    from tunecheck._messages import did_you_mean

    if name not in BENCHMARKS:
        raise ConfigurationError(f"there is no benchmark {name!r}{did_you_mean(name, BENCHMARKS)}")
    return _get_bfcl(to, source) if name == "bfcl" else _get_trivia(to, source, overwrite)


def _get_bfcl(to: Path | None, source: Path | None) -> int:
    from tunecheck.datasets._bfcl.categories import CATEGORIES
    from tunecheck.datasets._bfcl.download import PACKAGE, get_bfcl
    from tunecheck.datasets._bfcl.files import ENVIRONMENT, find_bfcl

    folder = get_bfcl(to=to, source=source)
    print(f"BFCL's data: {folder}")
    if not find_bfcl(folder).is_the_release:
        print(f"note: it is not that of {PACKAGE}, which the simulators follow; scores may differ from published ones")
    if to is not None:
        print(f"set {ENVIRONMENT}={folder} for it to be found there")
    print(f"rows: bfcl:CATEGORY, with one of {', '.join(CATEGORIES)}")
    return _DONE


def _get_trivia(to: Path | None, source: Path | None, overwrite: bool) -> int:
    from tunecheck._errors import ConfigurationError
    from tunecheck._messages import counted
    from tunecheck.datasets._trivia import convert_trivia

    if source is None:
        raise ConfigurationError("datasets get trivia needs a file of questions: give it with --from FILE")
    report = convert_trivia(source, to or TRIVIA, overwrite=overwrite)
    left_out = f", {report.left_out:,} entries without question or answer left out" if report.left_out else ""
    print(f"written {report.out}: {counted(report.questions, 'question')}{left_out}")
    print(f"use it: tunecheck memory run … --filler {report.out}")
    return _DONE


def check(
    data: Data,
    limit: Limit = None,
    copy: Copy = None,
    remarks: Remarks = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Replay the ground truth of a multi-turn data set on its simulators, and list what is wrong, by entry and turn.

    Turns count from 0. Exit code 3: something was found.
    """
    from tunecheck._errors import DataError
    from tunecheck.datasets._bfcl.files import find_bfcl
    from tunecheck.datasets._multi_turn.check import findings
    from tunecheck.datasets._reading import open_dataset
    from tunecheck.simulators._long_context import LongContext

    dataset = open_dataset(data, limit=limit)
    if not {"turns", "ground_truth"} <= dataset.scan().columns:
        raise DataError(f"{dataset.name}: has no columns turns and ground_truth, which a multi-turn data set has")
    constants = LongContext.read(find_bfcl(copy).package) if copy else None
    counted = _Counted(row.values for row in dataset.rows())
    found = findings(counted, long_context=constants)
    return _as_json(found, counted) if json else _as_text(found, counted, remarks)


class _Counted:
    """Rows that are counted as they are taken."""

    def __init__(self, rows: Iterable[Mapping[str, object]]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        for row in self._rows:
            self.count += 1
            yield row


def _as_text(found: Iterable[Finding], rows: _Counted, remarks: bool) -> int:
    from tunecheck._messages import clean, counted

    kinds: Counter[bool] = Counter()
    entries: set[str] = set()
    for entry, group in groupby(found, key=lambda finding: finding.entry):
        own = list(group)
        kinds.update(finding.is_remark for finding in own)
        shown = [finding for finding in own if remarks or not finding.is_remark]
        if shown:
            print(clean(entry))
        for finding in shown:
            print(f"  {clean(_line(finding))}")
        if not all(finding.is_remark for finding in own):
            entries.add(entry)
    hint = "" if remarks or not kinds[True] else " (--remarks lists them)"
    problems = f"{counted(kinds[False], 'problem')} in {len(entries):,} of them" if kinds[False] else "no problems"
    noted = f", {counted(kinds[True], 'remark')}{hint}" if kinds[True] else ""
    print(f"checked {counted(rows.count, 'row')}: {problems}{noted}")
    return _NOT_MET if kinds[False] else _DONE


def _line(finding: Finding) -> str:
    from tunecheck.datasets._multi_turn.entry import PROBLEMS

    where = "" if finding.turn is None else f"turn {finding.turn}: "
    call = f"{finding.call}: " if finding.call else ""
    return f"{where}{PROBLEMS[finding.problem]}: {call}{finding.text}"


def _as_json(found: Iterable[Finding], rows: _Counted) -> int:
    from dataclasses import asdict

    from tunecheck._json import dumps

    findings = list(found)
    problems = sum(not finding.is_remark for finding in findings)
    value = {"rows": 0, "problems": problems, "findings": [asdict(finding) for finding in findings]}
    value["rows"] = rows.count
    print(dumps(value).decode())
    return _NOT_MET if problems else _DONE
