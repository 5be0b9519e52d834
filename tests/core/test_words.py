"""The glossary of CONTRIBUTING.md: words that it retired stand in no docstring and no comment."""

import re

from scripts.measure_sentences import files_of, sentences
from tests.conftest import ROOT

RETIRED = re.compile(r"\b(lanes?|purses?|rulers?|strangers?|nobody|somebody|whoever)\b", re.IGNORECASE)

SERVICES = "tunecheck_bfcl/_services"
"""Simulated services, which speak of their users."""


def test_no_retired_word_stands_in_the_source() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {sentence}"
        for path in files_of(ROOT / "src")
        if SERVICES not in path.as_posix() and RETIRED.search(path.read_text("utf-8"))
        for line, sentence in sentences(path)
        if RETIRED.search(sentence)
    ]
    assert found == []
