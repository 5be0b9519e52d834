"""`tunecheck datasets check`: try out a multi-turn data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import DataError
from tunecheck._messages import clean, counted
from tunecheck.cli._console import print_json
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import argument, command, flag, option
from tunecheck.cli._shared_options import JsonOptions

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.datasets._multi_turn_check import Finding

_DONE, _NOT_MET = 0, 3


@dataclass(frozen=True, kw_only=True)
class CheckOptions(JsonOptions):
    """The options of `datasets check`."""

    data: str = argument("Multi-turn rows: a file, or e.g. bfcl:multi_turn_base.", "FILE")
    limit: int | None = option("Only the first N rows.", "N", least=1)
    bfcl: Path | None = option("A copy of BFCL, for rows that ask for long context.", "DIR")
    remarks: bool = flag("List what an entry can be right in spite of, too.")


@command(CheckOptions)
def check(options: CheckOptions, invocation: Invocation) -> int:
    """Replay the ground truth of a multi-turn data set on its simulators, and list what is wrong, by entry and turn.

    Turns count from 0. Exit code 3: something was found.
    """
    from tunecheck.datasets._bfcl.files import find_bfcl
    from tunecheck.datasets._multi_turn_check import findings
    from tunecheck.datasets._reading import open_dataset
    from tunecheck.simulators._long_context import LongContext

    dataset = open_dataset(options.data, limit=options.limit)
    if not {"turns", "ground_truth"} <= dataset.scan().columns:
        raise DataError(f"{dataset.name}: has no columns turns and ground_truth, which a multi-turn data set has")
    constants = LongContext.read(find_bfcl(options.bfcl).package) if options.bfcl else None
    rows = _Counted(row.values for row in dataset.rows())
    listed = findings(rows, long_context=constants)
    return _as_json(listed, rows) if options.json else _as_text(listed, rows, options.remarks)


class _Counted:
    """Rows that are counted as they are taken."""

    def __init__(self, rows: Iterable[Mapping[str, object]]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        for row in self._rows:
            self.count += 1
            yield row


def _as_text(findings: Iterable[Finding], rows: _Counted, remarks: bool) -> int:
    kinds: Counter[bool] = Counter()
    entries: set[str] = set()
    for entry, group in groupby(findings, key=lambda finding: finding.entry):
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
    from tunecheck.datasets._multi_turn_check import PROBLEMS

    where = "" if finding.turn is None else f"turn {finding.turn}: "
    call = f"{finding.call}: " if finding.call else ""
    return f"{where}{PROBLEMS[finding.problem]}: {call}{finding.text}"


def _as_json(findings: Iterable[Finding], rows: _Counted) -> int:
    listed = [*findings]
    problems = sum(not finding.is_remark for finding in listed)
    as_data: list[JSON] = [asdict(finding) for finding in listed]
    print_json({"rows": rows.count, "problems": problems, "findings": as_data})
    return _NOT_MET if problems else _DONE
