"""The constants that pad states and answers in BFCL's long-context rows, read from the user's own copy of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck_bfcl._data.constants import read_constants

FILE = "long_context.py"

_INSIDE = Path("eval_checker", "multi_turn_eval", "func_source_code")

_PLACES = (
    Path(),
    _INSIDE,
    Path("bfcl_eval") / _INSIDE,
    Path("berkeley-function-call-leaderboard", "bfcl_eval") / _INSIDE,
    Path("..") / _INSIDE,  # the folder given is the data's
)


def read_long_context(folder: Path) -> Mapping[str, JSON]:
    """Return the constants in a copy of BFCL by name, such as `FILE_CONTENT_EXTENSION`.

    Only literals are read, nothing is run. Services share the values and copy what they change or hand out.

    Args:
        folder: What `tunecheck bfcl get` made, an unpacked package or a clone; or the file itself.

    Raises:
        DataError: There is no such file, or it is not Python, or holds no constants.
    """
    path = _find(folder)
    constants = {name: value for name, value in read_constants(path).items() if _is_plain(value)}
    if not constants:
        raise DataError(f"{path}: holds no constants; get the data again with: tunecheck bfcl get")
    return cast("Mapping[str, JSON]", constants)


def _find(folder: Path) -> Path:
    if folder.is_file():
        return folder
    for place in _PLACES:
        if (folder / place / FILE).is_file():
            return folder / place / FILE
    raise DataError(
        f"{folder}: there is no {FILE} of BFCL, which long-context rows need; get it with: tunecheck bfcl get"
    )


def _is_plain(value: object) -> bool:
    """Whether it is JSON; and so is `...` here, which one of the published lists holds as an item and answers show."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or value is ... or isinstance(value, (str, int, float))
