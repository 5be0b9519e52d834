"""Tables of cases: a JSON Lines file for each area, whose lines hold a case, its id and the sentence of its test."""

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])


def cases(area: str) -> Callable[[Test], Test]:
    """Run a test once for each line of `cases/AREA.jsonl` that holds its sentence, with the other keys as arguments."""

    def mark(test: Test) -> Test:
        sentence = test.__name__.removeprefix("test_").replace("_", " ")
        rows = [
            row
            for row in table(Path(test.__code__.co_filename).parent / "cases" / f"{area}.jsonl")
            if row["test"] == sentence
        ]
        assert rows, f"no line of {area}.jsonl holds {sentence!r}"
        names = [name for name in rows[0] if name not in ("test", "id")]
        values = [pytest.param(*(row[name] for name in names), id=row["id"]) for row in rows]
        marked: Test = pytest.mark.parametrize(names, values)(test)
        return marked

    return mark


@lru_cache
def table(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a table."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
