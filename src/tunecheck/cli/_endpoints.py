"""`tunecheck endpoints check`: one request to an endpoint, and what came back."""

from __future__ import annotations

from dataclasses import dataclass

from tunecheck._messages import printable
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import CommandOptions, argument, command


@dataclass(frozen=True, kw_only=True)
class CheckOptions(CommandOptions):
    """The options of `endpoints check`."""

    definition: str = argument("A definition, or the name of one in endpoints/.", "FILE")


@command(CheckOptions)
def check(options: CheckOptions, invocation: Invocation) -> int:
    """Send one small request with a tool, and say what came back.

    Exit codes: 0 it answered; 1 it did not; 2 the definition is wrong.
    """
    import asyncio

    from tunecheck.cli._evaluate.answer_source import load_named
    from tunecheck.endpoints._check import check_endpoint

    report = asyncio.run(check_endpoint(load_named(options.definition)))
    for line in report.lines():
        print(printable(line))
    return 0 if report.ok else 1
