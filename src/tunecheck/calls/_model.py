"""A function call as data, and the result of reading calls from a value."""

from dataclasses import dataclass, field

from tunecheck._json import JSON

PARALLEL = "multi_tool_use.parallel"
"""The wrapper some models put around calls made at once; its argument `tool_uses` holds them."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One call of a function: its name and its arguments by name.

    `id` is the call's identity in the wire format it came from, where it has one; it takes no part in equality.
    """

    name: str
    arguments: dict[str, JSON] = field(default_factory=dict)
    id: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """The calls in one value (a response or a ground truth), or the problem with a call that cannot be read.

    `calls` are in their order in the value. `text` is the rest of the value, or all of it without a call. `format` is
    the wire format that was recognised. `problem` says why an announced call cannot be read; `calls` are then those
    before it. `cause` is the code of codes.toml for a problem that is not the call's own: `cut_off`,
    `call_in_reasoning`. `reasoning` is the model's thought without its marks. A thought inside the text is part of
    `text`, too. Equality ignores `reasoning` and `cause`.
    """

    calls: tuple[FunctionCall, ...] = ()
    text: str = ""
    format: str | None = None
    problem: str | None = None
    reasoning: str = field(default="", compare=False)
    cause: str | None = field(default=None, compare=False)

    @property
    def complete_calls(self) -> tuple[FunctionCall, ...]:
        """The calls, or none of them if one cannot be read."""
        return () if self.problem is not None else self.calls


def tool_name(name: str) -> str:
    """Return a function's name as a tool may have it: `math.gcd` becomes `math_gcd`."""
    return name.replace(".", "_")


def plain_name(name: str) -> str:
    """Return a name by which different spellings are equal: case, dots and dashes do not count."""
    return tool_name(name).replace("-", "_").casefold()
