"""The constants that pad states and answers in BFCL's long-context rows, read from the user's own copy of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tunecheck._errors import DataError
from tunecheck._json import JSON
from tunecheck._literals import read_constants
from tunecheck.simulators._figures import copied

FILE = "long_context.py"

_INSIDE = Path("eval_checker", "multi_turn_eval", "func_source_code")

_PLACES = (
    Path(),
    _INSIDE,
    Path("bfcl_eval") / _INSIDE,
    Path("berkeley-function-call-leaderboard", "bfcl_eval") / _INSIDE,
    Path("..") / _INSIDE,  # the folder given is the data's
)


class LongContext(Mapping[str, JSON]):
    """Constants by name, such as `FILE_CONTENT_EXTENSION`. Each value given out is a copy that its taker may change."""

    def __init__(self, constants: Mapping[str, JSON]) -> None:
        self._constants = {name: copied(value) for name, value in constants.items()}
        self._flat = {
            name
            for name, value in self._constants.items()
            if (isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value))
        }

    @classmethod
    def read(cls, folder: Path) -> LongContext:
        """The constants in a copy of BFCL: what `tunecheck datasets get bfcl` made, an unpacked package or a clone.

        Only literals are read, nothing is run. `folder` may also be the file itself.

        Raises:
            DataError: there is no such file, or it is not Python, or holds no constants.
        """
        path = _find(folder)
        constants = {name: value for name, value in read_constants(path).items() if _is_plain(value)}
        if not constants:
            raise DataError(f"{path}: holds no constants; get the data again with: tunecheck datasets get bfcl")
        return cls(constants)  # type: ignore[arg-type]  # checked just above

    def __getitem__(self, name: str) -> JSON:
        value = self._constants[name]
        # The longest are lists of thousands of numbers or names, asked for with every answer that they pad.
        return value.copy() if name in self._flat and isinstance(value, list) else copied(value)

    def __contains__(self, name: object) -> bool:
        return name in self._constants

    def __iter__(self) -> Iterator[str]:
        return iter(self._constants)

    def __len__(self) -> int:
        return len(self._constants)

    def __repr__(self) -> str:
        return f"<LongContext: {len(self)} constants>"


def _find(folder: Path) -> Path:
    if folder.is_file():
        return folder
    for place in _PLACES:
        if (folder / place / FILE).is_file():
            return folder / place / FILE
    raise DataError(
        f"{folder}: there is no {FILE} of BFCL, which long-context rows need; get it with: tunecheck datasets get bfcl"
    )


def _is_plain(value: object) -> bool:
    """Whether it is JSON; and so is `...` here, which one of the published lists holds as an item and answers show."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or value is ... or isinstance(value, (str, int, float))
