"""What the stages of `datasets author` write: each file's content as structs, for people to read and edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import field

from tunecheck.calls import FunctionCall
from tunecheck.plugins import FORMAT_VERSION, Written, canonical

if TYPE_CHECKING:
    from tunecheck.plugins import JSON
else:
    JSON = Any  # msgspec reads no type that stands in itself

Variant: TypeAlias = Literal[
    "missing_parameter", "missing_function", "long_context", "composite", "distractors", "irrelevant", "change_of_mind"
]
VARIANTS: tuple[Variant, ...] = get_args(Variant)


class StageRecord(msgspec.Struct, frozen=True):
    """A file of a stage: the hash of what it was made from, and that of its bytes as they were written."""

    input: str
    made: str


class AuthorFile(msgspec.Struct, kw_only=True):
    """`author.json`: of which version the files beside it are, and what each was made from."""

    format_version: int = FORMAT_VERSION
    name: str
    stages: dict[str, StageRecord] = {}


class WorldFile(Written, frozen=True, kw_only=True):
    """`world.yaml`: the services, and what conversations with them are about.

    `configurations` is what each simulator starts from. In it `{$one_of: [a, b]}` stands for one of these, `{$some:
    [...]}` and `{$some: {...}}` for some of the items, `{$between: [low, high]}` for a number; each conversation draws
    its own. `values` are what users give for a parameter, by `function.parameter` or by the parameter alone.
    `requests` says what each function does, as a request without its arguments: "cancel an order". `left_out` are
    functions that no conversation uses.
    """

    format_version: int = FORMAT_VERSION
    simulators: list[str]
    configurations: dict[str, dict[str, JSON]] = field(default_factory=dict)
    values: dict[str, list[JSON]] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


class Edge(Written, frozen=True, kw_only=True):
    """A value that feeds a parameter: `source` is a function's result (`place_order.order_id`) or a part of a
    simulator's state (`TradingBot.stocks.@`, where `@` stands for the keys and `*` for each of several).

    `found` says how it is known: by `name` and type, by calls that were `tried`, or `own` for one that you added.
    """

    source: str
    target: str
    found: Literal["name", "tried", "own"] = "own"


class GraphFunction(Written, frozen=True, kw_only=True, omit_defaults=True):
    """What trying a function showed.

    `writes`: some call of it changed the state. `keyed` are the parameters that take not just any value. `ignored` are
    parameters whose value nothing depends on. `problem` is why it cannot be used.
    """

    simulator: str
    writes: bool = False
    keyed: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    problem: str | None = None


class GraphFile(Written, frozen=True, kw_only=True):
    """`graph.yaml`: which values feed which parameters, and which function makes which other one possible."""

    format_version: int = FORMAT_VERSION
    functions: dict[str, GraphFunction] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    enables: list[list[str]] = field(default_factory=list)


class Argument(Written, frozen=True, kw_only=True, omit_defaults=True):
    """An argument: a `value`, and where it comes from if not from the user's words.

    `source` is an earlier call by turn and number, `path` the place in its result; `edge` is that of the graph, and
    `inner` are the edges of places in a list or object.
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
    """A line of `tasks.jsonl`: the calls of each turn, what the conversation starts from, and what the user says.

    `words` are the user's words by turn, in one `voice`; where they are empty, plain ones are made. `plain` says by the
    number of a turn why the plain request stands in place of a writer's words. `recoveries` are error replies that a
    first attempt would get in a turn, by the number of the turn.
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
        """The calls of all turns."""
        return [call for turn in self.turns for call in turn]


class RowLine(Written, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `variants.jsonl`, and a row of the data set: a conversation as `evaluate` takes it.

    `task` is what it was made from, `variant` how ("base": as it is), `path` the functions it calls.
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
        """What no row of a training set may have in common with one of the test set, beside its path."""
        configured = {name: each for name, each in self.initial_config.items() if each}
        return [f"{name} {canonical(each).decode()}" for name, each in configured.items()]

    @property
    def turn_count(self) -> int:
        return len(self.turns)

    @property
    def call_count(self) -> int:
        return sum(map(len, self.ground_truth))


class QuestionLine(Written, frozen=True, kw_only=True):
    """A line of `variants.jsonl`, and a row of the data set, where there is one turn: a question.

    `variant` is "one_call", "parallel" or "no_call", `check` the same for `call_check`. `ground_truth` has the possible
    answers: by function and parameter the values that are right, `""` where it may be left out.
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
        return [str(message.get("content")) for message in self.messages]

    @property
    def turn_count(self) -> int:
        return 1

    @property
    def call_count(self) -> int:
        return len(self.ground_truth)


Line: TypeAlias = RowLine | QuestionLine


class Weakness(Written, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `rejected.jsonl`: a row that does not hold, and why; one of variant "task" was not made a task.

    `reason` says what sort of thing is wrong, `detail` what it is, `function` which one it is about.
    """

    id: str = ""
    variant: str = ""
    reason: str
    detail: str = ""
    function: str | None = None
