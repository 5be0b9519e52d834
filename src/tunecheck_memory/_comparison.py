"""Compare two memory runs: their memory spans, and the figures of each data set.

Scores of two runs are comparable only if the conversations were alike. A warning names each difference: the memory
span, tests in conversations of their own (`--isolated`), and the settings in `_COMPARED_SETTINGS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from tunecheck import Run
from tunecheck.comparison import Objection
from tunecheck.plugins import JSON, real_number
from tunecheck.results import RunInfo
from tunecheck.views import Table, Words

# Keys of the manifest's memory settings, as `MemoryTarget.describe` writes them; most values are hashes
_COMPARED_SETTINGS = ("tests", "wording", "filler", "tokenizer", "clock", "prompt size", "judge")


class DataSets:
    """The data sets of two memory runs."""

    def data(self, base: RunInfo, new: RunInfo) -> JSON:
        """Return the figures of each data set in both runs: `[{"title", "base", "new"}, …]`.

        A side is None if that run has no tests of the data set. Return None if one of the runs is no memory run.
        """
        if not (_settings(base) and _settings(new)):
            return None

        before, after = _figures(base), _figures(new)
        titles = dict.fromkeys([*before, *after])
        return [{"title": title, "base": before.get(title), "new": after.get(title)} for title in titles]

    def table(self, data: JSON) -> Table:
        """Return a table with the score ± spread and the mean length in tokens of each data set in both runs."""
        pairs = [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []
        rows = [
            (Words(str(each["title"]), foreign=True), *_cells(each["base"]), *_cells(each["new"])) for each in pairs
        ]
        return Table(("data set", "base", "tokens", "new", "tokens"), rows)


DATA_SETS = DataSets()


def _cells(side: JSON) -> tuple[str, str]:
    """Return a data set's score and the mean number of its tokens as texts, with a dash for a missing value."""
    if not isinstance(side, dict):
        return "–", "–"

    mean, spread = side["mean"], side["deviation"]
    score = "–" if mean is None else f"{mean:.2f} ± {spread:.2f} (n={side['scored']})"
    return score, f"{side['tokens']:,.0f}"


def memory_warnings(base: RunInfo, new: RunInfo) -> Iterator[Objection]:
    """Yield a warning for each difference that makes two memory runs incomparable; none for other runs."""
    before, after = _settings(base), _settings(new)
    if before and after:
        yield from (Objection("memory_settings", text) for text in _differences(before, after))


def _settings(info: RunInfo) -> Mapping[str, JSON]:
    """Return the memory settings in a run's manifest; empty if it is not a memory run."""
    target = Run(Path(info.place)).manifest().target if info.source == "run" else None
    memory = target.get("memory") if target is not None else None
    return memory if isinstance(memory, dict) else {}


def _differences(base: Mapping[str, JSON], new: Mapping[str, JSON]) -> Iterator[str]:
    """Yield a sentence for each setting that makes the runs' scores incomparable."""
    spans = [real_number(each.get("memory_span")) or 0 for each in (base, new)]
    if spans[0] != spans[1]:
        yield (
            f"memory spans differ: {spans[0]:,.0f} tokens in the base, {spans[1]:,.0f} in the new run; "
            "the same tests are not equally hard"
        )

    if base.get("isolated") != new.get("isolated"):
        yield f"only the {'base' if base.get('isolated') else 'new'} run has each test in its own conversation"

    other = [part for part in _COMPARED_SETTINGS if base.get(part) != new.get(part)]
    if other:
        yield f"the conversations differ in {', '.join(other)}"


def _figures(info: RunInfo) -> dict[str, JSON]:
    """Return each data set's figures in a run, with its tests' mean number of tokens from start to end."""
    from tunecheck_memory._run_files import by_title, data_set_figures, read_scored  # not loaded for other runs

    figures: dict[str, JSON] = {}
    for title, tests in by_title(read_scored(Run(Path(info.place)).rows())).items():
        scores, tokens = data_set_figures(tests), math.fsum(test.tokens for test in tests) / len(tests)
        figures[title] = {"scored": scores.scored, "mean": scores.mean, "deviation": scores.std, "tokens": tokens}
    return figures
