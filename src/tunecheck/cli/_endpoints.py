"""`tunecheck endpoints check` and `doctor`: test whether an endpoint answers and its model is served correctly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from tunecheck._messages import command_line, printable
from tunecheck._trust import Trust
from tunecheck.cli._console import print_json
from tunecheck.cli._options import DONE, FAILED, NOT_MET, CommandOptions, Invocation, argument, command
from tunecheck.cli._shared_options import JsonOptions
from tunecheck.views import SIMULATED

if TYPE_CHECKING:
    from tunecheck.endpoints._base import Definition
    from tunecheck.endpoints._doctor.examination import Examination


@dataclass(frozen=True, kw_only=True)
class EndpointCheckOptions(CommandOptions):
    definition: str = argument("A definition, or the name of one in endpoints/.", "FILE")


@command(EndpointCheckOptions)
def check(options: EndpointCheckOptions, invocation: Invocation) -> int:
    """Send one small request with a tool, and say what came back; `endpoints doctor` asks more.

    Exit codes: 0 it answered; 1 it did not; 2 the definition is wrong.
    """
    import asyncio

    from tunecheck.cli._named_endpoints import load_named
    from tunecheck.endpoints._doctor.examination import check_endpoint

    report = asyncio.run(check_endpoint(load_named(options.definition, Trust())))
    for line in report.lines():
        print(printable(line))
    if report.ok:
        print(f"is it served right?  {command_line(['tunecheck', 'endpoints', 'doctor', options.definition])}")
    return DONE if report.ok else FAILED


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(EndpointCheckOptions, JsonOptions):
    pass


@command(DoctorOptions)
def doctor(options: DoctorOptions, invocation: Invocation) -> int:
    """Ask some questions with known answers, and say how the model is served and what to change.

    Exit codes: 0 no check failed; 2 the definition is wrong; 3 a check failed.
    """
    import asyncio

    from tunecheck.cli._named_endpoints import load_named
    from tunecheck.endpoints._definition import read_definition
    from tunecheck.endpoints._doctor.examination import examine

    endpoint, definition = load_named(options.definition, Trust()), read_definition(options.definition)
    found = asyncio.run(examine(endpoint, definition.data))
    if options.json:
        print_json(found.as_json())
    else:
        for line in _lines(found, definition):
            print(printable(line))
    return NOT_MET if found.counts["fail"] else DONE


def _lines(found: Examination, definition: Definition) -> Iterator[str]:
    counts = found.counts
    skipped = f", {counts['skip']} skipped" * bool(counts["skip"])
    failed = f"{counts['warn']} to look at, {counts['fail']} failed{skipped}"
    yield f"{found.endpoint} ({found.kind}): {counts['pass']} checks passed, {failed}"
    if found.simulated:
        yield SIMULATED
    yield ""
    for verdict, same in groupby(found.findings, lambda finding: finding.verdict):
        yield f"{verdict.status}  {', '.join(finding.check for finding in same)}: {verdict.evidence}"
        if verdict.advice:
            yield f"      {verdict.advice}"
    if found.changes:
        yield ""
        yield f"lines to put into {definition.document.name}, in place of those that set the same keys:"
        yield from (f"  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in found.changes.items())
