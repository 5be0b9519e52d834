"""The categories of BFCL V3, and their files in the user's copy, which is in the cache or a folder that the user names.

A copy has the package's layout: a folder `bfcl_eval` with `data/` and a few files with constants and texts.
`tunecheck bfcl get` makes such a copy. An unpacked package or a clone of the repository can be used, too.

  bfcl_eval/data/BFCL_v4_simple_python.json                        questions
  bfcl_eval/data/possible_answer/BFCL_v4_simple_python.json        ground truth
  bfcl_eval/data/multi_turn_func_doc/math_api.json                 function documents of a simulator
  bfcl_eval/data/unused_datasets/question/…, possible_answer/…     the category that is not scored
  bfcl_eval/constants/default_prompts.py and others (`TEXTS`)      prompts and constants

`find_bfcl` searches the first of these that is given: the folder, TUNECHECK_BFCL, the cache.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from tunecheck import DataError
from tunecheck.plugins import cache_folder, command_line, did_you_mean

Check = Literal["simple", "multiple", "parallel", "irrelevance", "relevance", "multi_turn"]

Language = Literal["python", "java", "javascript"]

_UNUSED = Path("unused_datasets")


class Category(msgspec.Struct, frozen=True):
    """A category: the check of answers, the language of functions, and the number of rows.

    `rows` is the number in the release that `tunecheck bfcl get` fetches. `scored` is False for the category that was
    part of V3 when it was published, but has since been excluded from the scores.
    """

    name: str
    check: Check
    rows: int
    language: Language = "python"
    scored: bool = True

    @property
    def multi_turn(self) -> bool:
        return self.check == "multi_turn"

    @property
    def long_context(self) -> bool:
        return self.name in ("multi_turn_long_context", "multi_turn_composite")

    @property
    def live(self) -> bool:
        """True if the category belongs to the live part, which users contributed."""
        return self.name.startswith("live_")

    @property
    def questions(self) -> Path:
        """The path of the category's questions below the data folder."""
        name = f"BFCL_v4_{self.name}.json"
        return Path(name) if self.scored else _UNUSED / "question" / name

    @property
    def answers(self) -> Path | None:
        """The path of the ground truth below the data folder; None if only the presence of a call is checked."""
        if self.check in ("irrelevance", "relevance"):
            return None
        folder = Path("possible_answer") if self.scored else _UNUSED / "possible_answer"
        return folder / f"BFCL_v4_{self.name}.json"


_ALL = (
    Category("simple_python", "simple", 400),
    Category("simple_java", "simple", 100, "java"),
    Category("simple_javascript", "simple", 50, "javascript"),
    Category("multiple", "multiple", 200),
    Category("parallel", "parallel", 200),
    Category("parallel_multiple", "parallel", 200),
    Category("irrelevance", "irrelevance", 240),
    Category("live_simple", "simple", 258),
    Category("live_multiple", "multiple", 1053),
    Category("live_parallel", "parallel", 16),
    Category("live_parallel_multiple", "parallel", 24),
    Category("live_irrelevance", "irrelevance", 884),
    Category("live_relevance", "relevance", 16),
    Category("multi_turn_base", "multi_turn", 200),
    Category("multi_turn_miss_func", "multi_turn", 200),
    Category("multi_turn_miss_param", "multi_turn", 200),
    Category("multi_turn_long_context", "multi_turn", 200),
    Category("multi_turn_composite", "multi_turn", 200, scored=False),
)

CATEGORIES = {category.name: category for category in _ALL}
"""All categories by name, in the order in which results are listed."""

GROUPS = {
    "all": tuple(category.name for category in _ALL if category.scored),
    "single_turn": tuple(category.name for category in _ALL if not category.multi_turn),
    "non_live": tuple(category.name for category in _ALL if not category.multi_turn and not category.live),
    "live": tuple(category.name for category in _ALL if category.live),
    "multi_turn": tuple(category.name for category in _ALL if category.multi_turn and category.scored),
}
"""Names for groups of categories. No group contains the category that is not scored, which must be named itself."""


def named_categories(text: str) -> list[Category]:
    """Return the categories that a text names by comma-separated categories and groups, each category once.

    Raises:
        DataError: a name is neither a category nor a group.
    """
    categories: dict[str, Category] = {}
    for name in text.split(","):
        for category in GROUPS.get(name.strip(), (name.strip(),)):
            if category not in CATEGORIES:
                hint = did_you_mean(category[:100], [*CATEGORIES, *GROUPS])
                raise DataError(f"bfcl: there is no category {category[:100]!r}{hint}")
            categories[category] = CATEGORIES[category]
    return list(categories.values())


def category_of(row_id: str) -> Category | None:
    """Return the category of a row id, such as `live_multiple` for `live_multiple_1-0-1`; None if no name fits.

    If several names are prefixes of the id, the longest one counts.
    """
    names = [name for name in CATEGORIES if row_id.startswith(f"{name}_")]
    return CATEGORIES[max(names, key=len)] if names else None


# Such as `live_simple_1-0-1`: the category, the row's number, the number of its function document, and a third number.
_LIVE_ID = re.compile(r"(?P<category>live_.+_)\d+-(?P<document>\d+)-\d+")

# Such as multi_turn_miss_func_7, a variant of the scenario 7.
_VARIANT_ID = re.compile(r"multi_turn_(?:base|miss_func|miss_param|long_context)_(?P<scenario>\d+)")


def shared_part(row_id: str) -> str:
    """Return a label that is equal for dependent rows. For an independent row, it is the row's id.

    Variants of a conversation (`multi_turn_base_7`, `multi_turn_miss_func_7`) share a scenario. Live rows with an equal
    second number in their ids (`live_simple_0-0-0`, `live_simple_1-0-1`) share a function document.
    """
    live = _LIVE_ID.fullmatch(row_id)
    if live is not None:
        return live["category"] + live["document"]
    variant = _VARIANT_ID.fullmatch(row_id)
    return row_id if variant is None else f"scenario {variant['scenario']}"


def is_bfcl(category: object, check: object) -> bool:
    """Return True if a row with these columns is a row of a data set `bfcl:…`."""
    return isinstance(category, str) and category in CATEGORIES and CATEGORIES[category].check == check


# Folders of category groups in the leaderboard's layout, between the model's folder and the files.
_GROUPS = frozenset({"non_live", "live", "multi_turn", "agentic", "memory", "format_sensitivity", "unused"})

OLD_NAMES = {"simple": "simple_python", "java": "simple_java", "javascript": "simple_javascript"}
"""The names of categories in V3 that have changed since, with the present names. Row ids changed in the same way."""


def row_id(name: str, category: str) -> str:
    """Return a row's id as in the present data: V3 had other ids for some rows (`java_5` is now `simple_java_5`)."""
    stem, _, number = name.rpartition("_")
    return f"{OLD_NAMES[stem]}_{number}" if OLD_NAMES.get(stem) == category else name


def model_folder_of(path: Path) -> Path:
    """Return the folder of the model for a result or score file, above the folders of category groups.

    `score/m/live/BFCL_v4_live_simple_score.json` gives `score/m`.
    """
    folder = path.parent
    while folder.name in _GROUPS:
        folder = folder.parent
    return folder


VERSION = "2026.3.23"
"""The release of `bfcl-eval` that is fetched, and with which Tunecheck's simulators were compared."""

ENVIRONMENT = "TUNECHECK_BFCL"
"""The environment variable with the path of a copy of the data outside the cache."""

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


class BfclFiles(msgspec.Struct, frozen=True):
    """A copy of BFCL: `package` is the package's folder, and `data` the folder of the data, usually in `package`."""

    package: Path
    data: Path

    def function_docs(self, simulator: str) -> Path:
        """Return the path of a simulator's function documents; the simulator must be in `FUNCTION_DOCS`."""
        return self.data / "multi_turn_func_doc" / FUNCTION_DOCS[simulator]

    def required(self, categories: Iterable[Category] = _ALL) -> Iterator[Path]:
        """Yield the data files of these categories: questions, answers, and the documents of all functions."""
        for category in categories:
            yield self.data / category.questions
            if category.answers:
                yield self.data / category.answers

        yield from map(self.function_docs, FUNCTION_DOCS)

    def missing(self) -> list[Path]:
        """Return the paths of the data files and texts that the copy lacks."""
        return [path for path in (*self.required(), *(self.package / text for text in TEXTS)) if not path.is_file()]


def default_folder() -> Path:
    """Return the folder where `tunecheck bfcl get` puts the data."""
    return cache_folder() / "bfcl" / VERSION


def find_bfcl(folder: Path | None = None) -> BfclFiles:
    """Return the copy of BFCL in a folder, by default in the folder that TUNECHECK_BFCL names, else in the cache.

    The folder may also be a clone of the repository, the package or its data folder.

    Raises:
        DataError: there is no copy. The text tells how to get one.
    """
    chosen = folder or (Path(os.environ[ENVIRONMENT]).expanduser() if os.environ.get(ENVIRONMENT) else None)
    start = chosen or default_folder()

    for place in _PLACES:
        if _is_data(start / place / "data"):
            return BfclFiles(start / place, start / place / "data")

    # The folder is the data folder itself; the texts are expected next to it.
    if _is_data(start):
        package = start.parent if start.name == "data" else start
        return BfclFiles(package, start)

    option = "--from" if start.suffix == ".whl" else "--to"  # a wheel given as the folder is the source
    command = ["tunecheck", "bfcl", "get", *([option, str(chosen)] if chosen else [])]
    raise DataError(f"{start} has no BFCL data; get the data with: {command_line(command)}")


def _is_data(folder: Path) -> bool:
    """Return True if a folder is BFCL's data folder, recognised by one of its question files."""
    try:
        return (folder / CATEGORIES["multi_turn_base"].questions).is_file()
    except (OSError, ValueError):  # a name that is too long or contains a null character
        return False
