"""The files of the stages of `datasets author`, as structs. People read and edit these files.

Each struct is the content of a file, or of each line of a JSON Lines file:

| file | struct |
|---|---|
| `author.json` | `AuthorFile` |
| `world.yaml` | `WorldFile` |
| `graph.yaml` | `GraphFile` |
| `tasks.jsonl` | `AuthoredTask` |
| `variants.jsonl`, the data set | `RowLine` for conversations, `QuestionLine` for single-turn rows |
| `refused.jsonl`, `rejected.jsonl`, `review.jsonl` | `Weakness` |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import field

from tunecheck import ConfigurationError
from tunecheck.calls import FunctionCall
from tunecheck.datasets import DatasetDefaults, sidecar_path, sidecar_text
from tunecheck.plugins import FORMAT_VERSION, Written, canonical, dumps_line, raise_as, write_file

if TYPE_CHECKING:
    from tunecheck.plugins import JSON
else:
    JSON = Any  # msgspec does not support recursive types

Variant: TypeAlias = Literal[
    "missing_parameter", "missing_function", "long_context", "composite", "distractors", "irrelevant", "change_of_mind"
]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
"""The kinds of variants; `VariantBuilder` has a method for each."""


class StageRecord(msgspec.Struct, frozen=True):
    """A stage's file: the hash of its inputs (`input`), and the hash of its bytes as written (`made`)."""

    input: str
    made: str


class AuthorFile(msgspec.Struct, kw_only=True):
    """`author.json`: the format version and the inputs of the stages' files."""

    format_version: int = FORMAT_VERSION
    name: str
    stages: dict[str, StageRecord] = {}


class WorldFile(Written, frozen=True, kw_only=True):
    """`world.yaml`: the services, and the subjects of conversations with them.

    `configurations` holds the initial state of each simulator. Each conversation draws its own values: one of
    `{$one_of: [a, b]}`, some items of `{$some: [...]}` or `{$some: {...}}`, a number of `{$between: [low, high]}`.
    `values` are values that users give for a parameter, by `function.parameter` or by the parameter alone.
    `requests` describes each function as a request without arguments: "cancel an order". `left_out` lists functions
    that no conversation uses.
    """

    format_version: int = FORMAT_VERSION
    simulators: list[str]
    configurations: dict[str, dict[str, JSON]] = field(default_factory=dict)
    values: dict[str, list[JSON]] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


class Edge(Written, frozen=True, kw_only=True):
    """A value that feeds a parameter: `source` is a function's result (`place_order.order_id`) or a part of a
    simulator's state (`TradingBot.stocks.@`; `@` means the keys, `*` each item).

    `found` is `name` (by its name or description and its type), `tried` (by calls) or `own` (you added it).
    """

    source: str
    target: str
    found: Literal["name", "tried", "own"] = "own"


class GraphFunction(Written, frozen=True, kw_only=True, omit_defaults=True):
    """The result of trying a function.

    `writes` is True if a call changed the state. `keyed` lists parameters that accept only some values, `ignored`
    parameters without any effect. `problem` is the reason if the function cannot be used.
    """

    simulator: str
    writes: bool = False
    keyed: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    problem: str | None = None


class GraphFile(Written, frozen=True, kw_only=True):
    """`graph.yaml`: the values that feed parameters, and the functions that make others possible."""

    format_version: int = FORMAT_VERSION
    functions: dict[str, GraphFunction] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    enables: list[list[str]] = field(default_factory=list)


class Argument(Written, frozen=True, kw_only=True, omit_defaults=True):
    """An argument: a `value` and its origin.

    If the value is from the result of an earlier call, `source` is that call, by turn and number, and `path` the place
    in the result. Otherwise `source` is None, and the user says the value. `edge` is the source of the graph's edge to
    the parameter, None for a value without an edge. `inner` has such sources by place in a list or object.
    """

    value: JSON
    source: tuple[int, int] | None = None
    path: list[str | int] = field(default_factory=list)
    edge: str | None = None
    inner: dict[str, str] = field(default_factory=dict)


class PlannedCall(Written, frozen=True, kw_only=True):
    """A call of a task."""

    function: str
    arguments: dict[str, Argument] = field(default_factory=dict)

    @property
    def call(self) -> FunctionCall:
        """Return the call with its values."""
        return FunctionCall(self.function, {name: each.value for name, each in self.arguments.items()})


class AuthoredTask(Written, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `tasks.jsonl`: the calls of each turn, the initial state, and the user's words.

    `words` are the user's words by turn, in one `voice`; if they are empty, plain ones are generated. `plain` holds, by
    turn number, the reason why the plain request replaces a writer's words. `recoveries` holds, by turn number, the
    error reply that a first attempt would get.
    """

    id: str
    simulators: list[str]
    configuration: dict[str, JSON]
    turns: list[list[PlannedCall]]
    recoveries: dict[str, str] = field(default_factory=dict)
    voice: str = ""
    words: list[str] = field(default_factory=list)
    plain: dict[str, str] = field(default_factory=dict)

    @property
    def calls(self) -> list[PlannedCall]:
        """Return the calls of all turns."""
        return [call for turn in self.turns for call in turn]


class RowLine(Written, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `variants.jsonl`, and a row of the data set: a conversation as `evaluate` takes it.

    `task` is the task's id, `variant` the kind of variant ("base": unchanged), `path` the functions the task calls.
    """

    id: str
    task: str
    variant: str
    path: str
    turns: list[list[dict[str, JSON]]]
    ground_truth: list[list[str]]
    involved_classes: list[str]
    initial_config: dict[str, JSON]
    held_out: dict[str, list[str]] = field(default_factory=dict)
    free_calls: str | None = None

    @property
    def apart(self) -> list[str]:
        """Return the keys, in addition to the path, that training and test rows must not share."""
        configured = {name: each for name, each in self.initial_config.items() if each}
        return [f"{name} {canonical(each).decode()}" for name, each in configured.items()]


class QuestionLine(Written, frozen=True, kw_only=True):
    """A line of `variants.jsonl`, and a row of the data set with a single turn: a question.

    `variant` is "one_call", "parallel" or "no_call", `check` the corresponding check of `call_check`. `ground_truth`
    holds the accepted values by function and parameter; `""` among them means that the parameter may be omitted.
    """

    id: str
    task: str
    variant: str
    path: str
    check: str
    messages: list[dict[str, JSON]]
    tools: list[dict[str, JSON]]
    ground_truth: list[dict[str, dict[str, list[JSON]]]]

    @property
    def apart(self) -> list[str]:
        """Return the texts of the messages, which training and test rows must not share."""
        return [str(message.get("content")) for message in self.messages]


Line: TypeAlias = RowLine | QuestionLine


class Weakness(Written, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `rejected.jsonl`: a rejected row with the reason; variant "task" marks a rejected task.

    `reason` is the kind of problem, `detail` describes it, `function` is the function concerned.
    """

    id: str = ""
    variant: str = ""
    reason: str
    detail: str = ""
    function: str | None = None


def write_rows(path: Path, rows: Sequence[Line], description: str) -> list[Path]:
    """Write rows, and a sidecar that declares their target and evaluator; return the paths of both files.

    `description` goes into the sidecar. There must be at least one row, and all must be of one type.

    Raises:
        ConfigurationError: A file cannot be written.
    """
    is_conversation = isinstance(rows[0], RowLine)
    target, evaluator = ("conversation", "multi_turn_state") if is_conversation else (None, "call_check")
    defaults = DatasetDefaults(target=target, evaluators=[evaluator], cluster="task")
    with raise_as(ConfigurationError, path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, b"".join(dumps_line(msgspec.to_builtins(row)) for row in rows))
        write_file(sidecar_path(path), sidecar_text(defaults, description=description).encode())
    return [path, sidecar_path(path)]
