"""Calls as models without a tool parser spell them, and texts that are no calls, read with the tools of the row."""

from __future__ import annotations

import pytest
from checks.formats_cases import as_pairs, exactly
from checks.formats_spellings import TOOLS, held_out, spellings

from tunecheck import read_calls


@pytest.mark.parametrize("half", [False, True], ids=["looked at", "held out"])
def test_every_spelling_is_read_as_it_is_meant(half: bool) -> None:
    cases = [case for case in spellings() if held_out(case[0]) is half]
    read = [read_calls(text, tools=TOOLS) for text, _ in cases]
    wrong = [text for (text, calls), got in zip(cases, read, strict=True) if not exactly(as_pairs(got), calls)]
    print(f"{len(cases) - len(wrong)} of {len(cases)}", *wrong, sep="\n")
    assert len(cases) > 70
    assert len(wrong) <= 0.03 * len(cases)
