"""A function call as data, and the result of reading calls from a value."""

from dataclasses import dataclass, field

from tunecheck._json import JSON

PARALLEL = "multi_tool_use.parallel"
"""The function with which some models wrap parallel calls, in its argument `tool_uses`."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One call of a function: its name and its arguments by name.

    `id` is the call's id in its wire format, or None. Equality ignores it.
    """

    name: str
    arguments: dict[str, JSON] = field(default_factory=dict)
    id: str | None = field(default=None, compare=False)


def as_value(call: FunctionCall) -> dict[str, JSON]:
    return {"name": call.name, "arguments": call.arguments}


@dataclass(frozen=True, slots=True)
class Reading:
    """The calls in one value (a response or a ground truth), or the problem with a call that cannot be read.

    `calls` are in the order of the value. `text` is the rest of the value, or the whole text if there is no call.
    `format` is the recognised wire format. If an announced call cannot be read, `problem` says why and `calls` are the
    calls before it. `cause` is a code of codes.toml for a problem that is not the call's own fault: `cut_off` or
    `call_in_reasoning`. `reasoning` is the model's reasoning without its marks; reasoning inside the text also stays in
    `text`. Equality ignores `reasoning` and `cause`.
    """

    calls: tuple[FunctionCall, ...] = ()
    text: str = ""
    format: str | None = None
    problem: str | None = None
    reasoning: str = field(default="", compare=False)
    cause: str | None = field(default=None, compare=False)

    @property
    def complete_calls(self) -> tuple[FunctionCall, ...]:
        """The calls, or an empty tuple if one cannot be read."""
        return () if self.problem is not None else self.calls


def tool_name(name: str) -> str:
    """Return a function's name as a tool may have it: `math.gcd` becomes `math_gcd`."""
    return name.replace(".", "_")


def plain_name(name: str) -> str:
    """Return the name in lower case, with underscores for dots and dashes, to compare different spellings."""
    return tool_name(name).replace("-", "_").casefold()
