"""Calls as models without a tool parser spell them, and texts that are no calls, read with the tools of the row."""

from __future__ import annotations

import random
from collections import Counter

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


def test_a_spelling_that_is_cut_off_has_a_reason() -> None:
    chance = random.Random(3)
    counted: Counter[str] = Counter()
    for text, calls in spellings():
        name = calls[-1][0] if calls else ""
        after = max(text.rfind(name), text.rfind(name.replace("_", "\\_"))) + len(name) + 2
        if calls and after < len(text) - 1:
            reading = read_calls(text[: chance.randint(after, len(text) - 2)], tools=TOOLS)
            whole = exactly(as_pairs(reading), calls)
            counted["reason" if reading.problem else "whole" if whole else "other"] += 1
    print(dict(counted))
    assert counted["other"] <= 0.02 * counted.total()
