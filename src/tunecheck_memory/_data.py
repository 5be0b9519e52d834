"""The package's own data files of memory tests: words, facts and codes that kinds make their tests of."""

from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from tunecheck.plugins import loads

DATA = Path(__file__).with_name("data")

T = TypeVar("T")


@lru_cache(maxsize=32)
def read_words(name: str) -> tuple[str, ...]:
    lines = (DATA / f"{name}.txt").read_text("utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip())


@lru_cache(maxsize=32)
def read_data(name: str, form: type[T]) -> T:
    return msgspec.convert(loads((DATA / f"{name}.json").read_bytes()), type=form)
