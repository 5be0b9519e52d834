"""The user's copy of BFCL, in the cache or in a folder that the user names.

A copy has the package's layout: a folder `bfcl_eval` with `data/` and a few files with constants and texts.
`tunecheck bfcl get` makes such a copy. An unpacked package or a clone of the repository can be used, too.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tunecheck import DataError
from tunecheck.plugins import cache_folder, raise_as
from tunecheck_bfcl._data.categories import CATEGORIES

VERSION = "2026.3.23"
"""The release of `bfcl-eval` that is fetched, and with which Tunecheck's simulators were compared."""

ENVIRONMENT = "TUNECHECK_BFCL"
"""The environment variable with the path of a copy of the data outside the cache."""

DATA_SHA256 = "b4a4a860f6ea0555e5cc77623657ca11a65908df90eeaa680a25cb6286b813a4"
"""The digest of that release's data (see `BfclFiles.digest`)."""

FUNCTION_DOCS = {
    "GorillaFileSystem": "gorilla_file_system.json", "MathAPI": "math_api.json", "MessageAPI": "message_api.json",
    "TicketAPI": "ticket_api.json", "TradingBot": "trading_bot.json", "TravelAPI": "travel_booking.json",
    "TwitterAPI": "posting_api.json", "VehicleControlAPI": "vehicle_control.json",
}  # fmt: skip
"""The file of function documents of each simulator, in `data/multi_turn_func_doc`."""

LONG_CONTEXT = Path("eval_checker", "multi_turn_eval", "func_source_code", "long_context.py")
PROMPTS = Path("constants", "default_prompts.py")
HINTS = Path("utils.py")
TOOL_HINTS = Path("model_handler", "utils.py")

TEXTS = (LONG_CONTEXT, PROMPTS, HINTS, TOOL_HINTS)
"""Python files with constants and texts, relative to the package's folder. They are parsed and never run."""

_PACKAGE = "bfcl_eval"

_PLACES = (Path(_PACKAGE), Path(), Path("berkeley-function-call-leaderboard", _PACKAGE))
"""The possible places of the package's folder below the given folder."""


@dataclass(frozen=True)
class BfclFiles:
    """A copy of BFCL: `package` is the package's folder, and `data` the folder of the data, usually in `package`."""

    package: Path
    data: Path

    def function_docs(self, simulator: str) -> Path:
        """Return the path of a simulator's function documents, or raise DataError for an unknown simulator."""
        if simulator not in FUNCTION_DOCS:
            raise DataError(f"{self.data}: there are no function documents of the simulator {simulator[:100]!r}")
        return self.data / "multi_turn_func_doc" / FUNCTION_DOCS[simulator]

    def required(self) -> Iterator[Path]:
        """Yield every data file of the V3 categories."""
        for category in CATEGORIES.values():
            yield self.data / category.questions
            if category.answers:
                yield self.data / category.answers
        for simulator in FUNCTION_DOCS:
            yield self.function_docs(simulator)

    def missing(self) -> list[Path]:
        """Return the paths of the data files and texts that the copy lacks."""
        return [path for path in (*self.required(), *(self.package / text for text in TEXTS)) if not path.is_file()]

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the names and SHA-256 hashes of all required files, in order."""
        combined = hashlib.sha256()
        for path in self.required():
            with raise_as(DataError, path):
                combined.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return combined.hexdigest()

    @property
    def is_the_release(self) -> bool:
        """True if the data is byte for byte that of the release `VERSION`."""
        return self.digest == DATA_SHA256


def default_folder() -> Path:
    """Return the folder where `tunecheck bfcl get` puts the data."""
    return cache_folder() / "bfcl" / VERSION


def find_bfcl(folder: Path | None = None) -> BfclFiles:
    """Return the copy of BFCL in a folder, by default in the folder that TUNECHECK_BFCL names, else in the cache.

    The folder may also be a clone of the repository, the package or its data folder.

    Raises:
        DataError: there is no copy. The text tells how to get one.
    """
    named = folder or (Path(os.environ[ENVIRONMENT]).expanduser() if os.environ.get(ENVIRONMENT) else None)
    start = named or default_folder()
    for place in _PLACES:
        if _is_data(start / place / "data"):
            return BfclFiles(start / place, start / place / "data")
    if _is_data(start):
        package = start.parent if start.name == "data" else start
        return BfclFiles(package, start)
    if start.suffix == ".whl":
        remedy = f"unpack it with: tunecheck bfcl get --from {start}, then leave out --data and TUNECHECK_BFCL"
        raise DataError(f"{start} is a wheel; {remedy}")
    problem = f"{start} has no BFCL data" if named else "BFCL's data is not downloaded yet"
    raise DataError(f"{problem}; get it with: tunecheck bfcl get")


def _is_data(folder: Path) -> bool:
    """Return True if a folder is BFCL's data folder, recognised by one of its question files."""
    try:
        return (folder / CATEGORIES["multi_turn_base"].questions).is_file()
    except (OSError, ValueError):  # a name that is too long or contains a null character
        return False
