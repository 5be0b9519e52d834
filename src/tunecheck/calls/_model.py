"""A function call as data, and what came of reading one out of a model's output."""

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
    """What one value (a response, a ground truth) says: calls, or none, with a reason where one was attempted.

    `calls` in the order they stand; `text` is what stands beside them (or all of it, where there is no call);
    `format` is the wire format that was recognised; `problem` says why something that announces itself as a call
    cannot be read, and then `calls` is empty. `reasoning` is what the model thought, without its marks; thoughts that
    stand in the text are part of `text` too. It takes no part in equality.
    """

    calls: tuple[FunctionCall, ...] = ()
    text: str = ""
    format: str | None = None
    problem: str | None = None
    reasoning: str = field(default="", compare=False)


def tool_name(name: str) -> str:
    """A function's name as a tool may have it: `math.gcd` is `math_gcd`."""
    return name.replace(".", "_")


def plain_name(name: str) -> str:
    """A function's name by which other spellings of it are known: letter case, dots and dashes do not count."""
    return tool_name(name).replace("-", "_").casefold()
