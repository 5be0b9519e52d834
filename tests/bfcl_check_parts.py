"""Shared parts of the tests of BFCL's checks: the data, results from its ground truth, a light switch as simulator."""

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.bfcl_copy import bfcl_copy

from tunecheck.episodes import RowVerdict, Services, StateCheck
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, tool
from tunecheck_bfcl import CATEGORIES, find_bfcl
from tunecheck_bfcl._data.files import BfclFiles
from tunecheck_bfcl._data.prompts import read_long_context
from tunecheck_bfcl._dialect import LeaderboardCheck
from tunecheck_bfcl._scoring import CheckRow, check_rows

Row = dict[str, Any]

CONVERSATIONS = tuple(name for name, category in CATEGORIES.items() if category.multi_turn)


@cache
def files() -> BfclFiles:
    return find_bfcl(bfcl_copy())


@cache
def entries(category: str) -> Mapping[str, CheckRow]:
    return check_rows(files(), CATEGORIES[category])


@cache
def long_context() -> Any:
    """The constants of long-context rows."""
    return read_long_context(files())


@cache
def services() -> Services:
    return Services(long_context=long_context)


@cache
def parameter_names() -> Mapping[str, list[str]]:
    """The parameters of each operation, in order."""
    lines = (line for path in (files().data / "multi_turn_func_doc").glob("*.json") for line in path.open())
    return {document["name"]: list(document["parameters"]["properties"]) for document in map(json.loads, lines)}


def read_call(text: str) -> tuple[str, Row] | None:
    """The name and arguments of a ground-truth call; None where it is not Python."""
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    arguments = dict(zip(parameter_names().get(call.func.id, []), map(ast.literal_eval, call.args), strict=False))
    return call.func.id, arguments | {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}


def true_calls(row: CheckRow) -> list[list[tuple[str, Row]]]:
    """The ground-truth calls of each turn, without those that are not Python."""
    truth: Any = row["ground_truth"]
    return [[call for text in turn if (call := read_call(text))] for turn in truth]


def as_tools(calls: Sequence[tuple[str, Row]]) -> list[Row]:
    """A step as a function-calling model's result file has it."""
    return [{name: json.dumps(arguments)} for name, arguments in calls]


def as_text(calls: Sequence[tuple[str, Row]]) -> str:
    """A step as a prompting model's result file has it."""
    return f"[{', '.join(_call_text(*call) for call in calls)}]"


def _call_text(name: str, arguments: Row) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def right_result(row: CheckRow, mode: str = "tools") -> list[object]:
    """The ground truth as a result, each call in a step of its own."""
    write: Callable[[Any], Any] = as_tools if mode == "tools" else as_text
    return [[write([call]) for call in turn] for turn in true_calls(row)]


def published(shared_data: Path, *, conversations: bool) -> Iterator[tuple[Path, str, dict[str, str | None]]]:
    """Each published result file, its category, and the error types of the rows that failed."""
    for path in sorted((shared_data / "bfcl_runs").glob("*/result/*/*/*_result.json")):
        category = path.name.removeprefix("BFCL_v4_").removesuffix("_result.json")
        if CATEGORIES[category].multi_turn == conversations:
            scores = Path(str(path).replace("/result/", "/score/").replace("_result.json", "_score.json"))
            _, *failed = map(json.loads, scores.read_text("utf-8").splitlines())
            yield path, category, {row["id"]: _error_type(row) for row in failed}


def _error_type(row: Row) -> str | None:
    error = row["error"]
    found = error["error_type"] if isinstance(error, dict) else row["error_type"]
    return str(found)


def plain(verdict: RowVerdict) -> tuple[bool | None, str | None]:
    return verdict.valid, verdict.error_type


class Lamp(Simulator):
    """A lamp that is on or off, remembers who used it, and keeps notes."""

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        self.on = bool(config.get("on", False))
        self.notes: list[JSON] = []
        self.settings: dict[str, JSON] = {}

    def state(self) -> dict[str, object]:
        return {"on": self.on, "notes": self.notes, "settings": self.settings}

    @tool
    def switch(self, on: bool) -> dict[str, bool]:
        """Switch the lamp."""
        self.on = on
        return {"on": on}

    @tool
    def look(self) -> dict[str, bool]:
        """See whether it is on."""
        return {"on": self.on}

    @tool
    def note(self, text: object) -> str:
        """Note something."""
        self.notes.append(text)  # type: ignore[arg-type]
        return "noted"

    @tool
    def set_up(self, settings: dict[str, int]) -> str:
        """Set it up."""
        self.settings = dict(settings)
        return "set"

    @tool
    def smash(self) -> None:
        """It will not."""
        raise SimulatorError("the lamp is unbreakable")


def lamp_row(*turns: Sequence[object], **columns: object) -> Row:
    """A row with these ground-truth calls in each turn."""
    row = {"id": "lamp_0", "ground_truth": [list(turn) for turn in turns], "involved_classes": ["Lamp"]}
    return row | {"initial_config": {"Lamp": {}}} | columns


def steps(*calls: tuple[str, Row]) -> list[object]:
    """A turn in which each of these calls is a step, and then nothing."""
    return [*(as_tools([call]) for call in calls), []]


def check_conversation(
    row: Mapping[str, object], result: object, *, compat: bool, services: Services | None = None, **more: Any
) -> RowVerdict:
    """The verdict on a conversation: the leaderboard's, or strictly."""
    check = LeaderboardCheck if compat else StateCheck
    return check(services or Services()).check(row, result, **more)
