"""Collect calls, texts and reasoning while a value is read.

The row's tools give the types of untyped texts. Most texts contain no sign of a call or of reasoning. One fast check
recognises them without the table of families (`may_hold_calls`, `may_hold_marks`).

If the row's tools are known and the user chose no format, the collector is gated: JSON and text that may also be data
or prose count as calls only with the name of a tool.
"""

import re
from dataclasses import replace

import msgspec

from tunecheck._json import JSON
from tunecheck.calls._model import (
    MAX_CALLS,
    MAX_DEPTH,
    PARALLEL,
    CutOffError,
    FunctionCall,
    Reading,
    UnreadableError,
    check_size,
    decode,
    exact,
    kind_of,
    place,
    quoted,
)
from tunecheck.calls._schemas import FunctionDefinition, Schema, ToolDefinitions

NAMESPACE = "functions."
"""The prefix of tool names in OpenAI's and similar models."""

# the tokens with which models end a message or a turn
_END_MARKS = (
    *("<|endoftext|>", "<|eom_id|>", "<|eot_id|>", "<|end_of_text|>", "<|im_end|>", "</s>", "<|eot|>", "<|return|>"),
    *("<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<end_of_turn>", "<turn|>", "<|end|>", "<|END_RESPONSE|>"),
    *("<seed:eos>", "<|EOT|>", "<|eom|>", "<|message_sep|>", "<eos>", "<|assistant_end|>", "<bot_end>"),
)
# such tokens at the beginning of a text: `<|im_end|> </s>`
_FIRST_MARKS = re.compile(rf"(?:\s*+(?:{'|'.join(map(re.escape, _END_MARKS))}))++")


def without_end_marks(text: str) -> str:
    """Remove end marks and white space from the end of a message."""
    end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        if not text.endswith(_END_MARKS, 0, end):  # nearly all texts
            return text[:end]
        end -= next(len(mark) for mark in _END_MARKS if text.endswith(mark, 0, end))


_SIGNS = (
    *("<", "```"),
    *("functools", "[TOOL_CALLS]", "to=functions.", "✿FUNCTION✿", "Call:", "Action:", "analysis"),
    *("[THINK]", "[/THINK]", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
)
"""Every mark of the known families contains one of these signs."""


def may_hold_calls(text: str, *, gated: bool) -> bool:
    """Return whether a text may contain a call or reasoning. `gated`: the row's tools are known."""
    if text.lstrip()[:1] in ("{", "[") or "tool_uses" in text:
        return True
    # Calls of known tools need no mark, but they have a brace or a parenthesis.
    if gated and ("{" in text or "(" in text):
        return True
    return may_hold_marks(text)


def may_hold_marks(text: str) -> bool:
    """Return whether a text may contain a mark of calls or reasoning of the known families."""
    for sign in _SIGNS:  # noqa: SIM110 - half the time of `any` with a generator, and each text comes here
        if sign in text:
            return True
    return False


_NO_CALLS: dict[str | None, frozenset[str]] = {
    "command_r": frozenset({"directly-answer", "directly_answer", "Final Answer"}),
    "granite_20b": frozenset({"no_function"}),
}
"""By format: the names that models write in the place of a function's when they answer with text."""

_MAX_PROBLEM = 400  # characters: a problem is one line of a table or a log


class CallCollector(msgspec.Struct, eq=False):
    """The calls and texts read so far.

    `add` and `add_tool_use` raise `UnreadableError` with the number of the call.

    tools: the tools of the row, if known.
    strict: the user chose a format.
    calls, texts, thoughts: the calls, the texts outside them, and the pieces of reasoning, in the order of the value.
    spans: the positions of calls in the text.
    format: the format of the first call.
    ambiguous: a call has a shape that data may have, too.
    call_start: the start of the last call after a mark or inside other text, even if it cannot be read.
    open_thought: reasoning without a closing mark.
    """

    tools: ToolDefinitions | None = None
    strict: bool = False
    calls: list[FunctionCall] = []
    texts: list[str] = []
    thoughts: list[str] = []
    spans: list[tuple[int, int]] = []
    format: str | None = None
    ambiguous: bool = False
    call_start: int = 0
    open_thought: str = ""

    @property
    def gated(self) -> bool:
        """True if ambiguous shapes count only with the name of a tool."""
        return bool(self.tools) and not self.strict

    def knows(self, name: str) -> bool:
        """Return whether there is a tool of this name. Without tools, return whether the user chose a format."""
        return self.definition(name) is not None if self.tools else self.strict

    def names_tool(self, text: str) -> bool:
        """Return whether the text contains the name of a tool; False without tools."""
        return any(name in text for name in self.tools or ())

    def schema(self, name: str) -> Schema | None:
        """Return the schema of a tool's parameters, or None."""
        definition = self.definition(name)
        return definition.schema if definition else None

    def definition(self, name: str) -> FunctionDefinition | None:
        """Return the definition of a tool, by its name with or without the namespace."""
        if not self.tools:
            return None
        # `functions.f` is the tool `f`, unless a tool has the whole name.
        return self.tools.spelled(name) or self.tools.spelled(name.removeprefix(NAMESPACE))

    def plain_name(self, name: str) -> str:
        """Return the tool `f` for the name `f.f`, which Muse's chat template writes.

        Return the name unchanged if it has another form, if it is a tool's name itself, or if there is no tool `f`.
        """
        head, _, tail = name.partition(".")
        return head if head == tail and not self.definition(name) and self.definition(head) else name

    def tool_of_number(self, number: str, arguments: JSON) -> str:
        """Return the tool that the arguments fit best, for a call with this number in place of the tool's name.

        Known names of arguments must be at least as many as unknown ones. If both are equally many, no required
        argument may be missing. Missing required arguments decide between tools that know equally many names. A single
        tool always fits.

        Raises:
            UnreadableError: no tool fits, or several tools fit equally well.
        """
        names = {*arguments} if isinstance(arguments, dict) else set[str]()
        fits: dict[str, float] = {}
        for tool in filter(None, map(self.definition, self.tools or ())):
            required = tool.parameters.get("required")
            needed = {*map(str, required)} if isinstance(required, list) else set[str]()
            known = names.intersection(tool.parameter_names)
            fits[tool.name] = 2 * len(known) - len(names) - len(needed - names) / (1 + len(needed))

        best = max(fits.values(), default=0)
        fitting = [name for name, fit in fits.items() if len(fits) == 1 or fit == best >= 0]
        if len(fitting) != 1:
            problem = f"{len(fitting)} of the row's {len(fits)} tools fit its arguments best"
            raise UnreadableError(f"a call has the number {quoted(number)} in place of a name, and {problem}")
        return fitting[0]

    def empty_copy(self) -> "CallCollector":
        """Return an empty collector with the same tools."""
        return CallCollector(self.tools, strict=self.strict)

    def reading(self) -> Reading:
        """Return the calls, the texts and the reasoning collected so far."""
        return Reading(tuple(self.calls), "\n".join(self.texts), self.format, reasoning="\n".join(self.thoughts))

    def add_thought(self, thought: str, whole: str) -> None:
        """Add reasoning without its marks to the thoughts, and with its marks (`whole`) to the text."""
        if thought.strip():
            self.thoughts.append(thought.strip())
        self.add_text(whole)

    def add_text(self, text: str) -> None:
        """Add text outside calls, without white space and end marks around it; add nothing if no text is left."""
        if "<" in text:
            # The end mark of the message before may stand at the beginning.
            first = _FIRST_MARKS.match(text)
            text = without_end_marks(text[first.end() :] if first else text)
        if stripped := text.strip():
            self.texts.append(stripped)

    def add_reading(self, other: Reading) -> None:
        """Add the calls, the text and the reasoning of another reading.

        Raises:
            UnreadableError: the reading has a problem, and nothing is added; or there are too many calls.
        """
        self.format = self.format or other.format
        if other.problem:
            raise UnreadableError(other.problem)
        for call in other.calls:
            self._append(call, other.format)
        self.thoughts += [other.reasoning] if other.reasoning else []
        self.add_text(other.text)

    def add(self, wire_format: str | None, name: object, arguments: object = None, call_id: object = None) -> None:
        """Add one call, or the calls in a wrapper of parallel calls.

        The arguments are an object or its JSON text; missing or empty ones are an empty object. In some formats, models
        say with a certain name that they call nothing. This name adds no call, unless a tool has it. The wrapper is
        `multi_tool_use.parallel`, with the argument `{"tool_uses": [{"recipient_name": "functions.f", …}]}`.

        Raises:
            UnreadableError: the call has no name, its arguments cannot be read, or there are more than 1,000 calls.
        """
        # The format is set before the call is checked, so that a problem has it, too.
        self.format = self.format or wire_format
        if not isinstance(name, str) or not name.strip():
            raise UnreadableError(f"call {len(self.calls) + 1} has no name")
        if name in _NO_CALLS.get(wire_format, ()) and not self.definition(name):
            return

        try:
            parsed = _parse_arguments(arguments)
        except UnreadableError as error:
            problem = f"the arguments of call {len(self.calls) + 1} ({quoted(name)}) are unreadable: {error}"
            raise UnreadableError(problem) from None

        if name == PARALLEL:
            uses = parsed.get("tool_uses")
            if not isinstance(uses, list):
                raise UnreadableError(f"call {len(self.calls) + 1} ({PARALLEL}) has no list under 'tool_uses'")
            for use in uses:
                self.add_tool_use(wire_format, use)
            return

        plain_name = str.__str__(name)  # the name may be of a subclass of str
        self._append(FunctionCall(plain_name, parsed, call_id if isinstance(call_id, str) else None), wire_format)

    def add_tool_use(self, wire_format: str | None, use: object) -> None:
        """Add one call in the shape `{"recipient_name": "functions.f", "parameters": {…}}`.

        Raises:
            UnreadableError: `use` is not an object, has no name, or its arguments cannot be read.
        """
        if not isinstance(use, dict):
            self.format = self.format or wire_format
            raise UnreadableError(f"call {len(self.calls) + 1} is {kind_of(use)}, not an object")
        name = use.get("recipient_name")
        if isinstance(name, str):
            name = name.removeprefix(NAMESPACE)
        self.add(wire_format, name, use.get("parameters"), use.get("id"))

    def _append(self, call: FunctionCall, wire_format: str | None) -> None:
        """Add a call to the list; refuse more than MAX_CALLS calls (UnreadableError)."""
        if len(self.calls) >= MAX_CALLS:
            raise UnreadableError(f"the response has more than {MAX_CALLS} calls")
        self.format = self.format or wire_format
        self.calls.append(call)


def failed_reading(text: str, collector: CallCollector, error: UnreadableError | RecursionError) -> Reading:
    """Return the reading of a text with an unreadable call: the collected calls, the whole text, and the problem."""
    if isinstance(error, RecursionError):  # the stack was nearly full before the text was read
        error = UnreadableError("the text with the calls is nested too deeply")
    begin = "the last call is cut off: " if isinstance(error, CutOffError) else ""
    problem = f"{begin}{' '.join(str(error).split())}"[:_MAX_PROBLEM]
    return replace(collector.reading(), text=text, problem=problem, cause=error.cause)


# the rest of a text that ends inside a name, an object or a tag: `get_ti`, `{"a`, `<tool`
_UNFINISHED = re.compile(r"\s*+(?:[^\s}\])>]*+|<[^>]*+)\Z")


def no_call(mark: str, text: str, position: int, expected: str = "a call") -> UnreadableError:
    """Return the error for a mark without a call: CutOffError if the text ends there, else UnreadableError.

    `position` is the place after the mark, where a call (or the thing that `expected` names) is missing.
    """
    kind = CutOffError if _UNFINISHED.match(text, position) else UnreadableError
    return kind(f"{mark} is not followed by {expected} at {place(text, position)}")


def _parse_arguments(value: object) -> dict[str, JSON]:
    """Return a call's arguments from an object or its JSON text; {} for None, blank text and the text `null`.

    Raises:
        UnreadableError: the text is too long or not JSON, or the arguments are not an object.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}

    if isinstance(value, str):
        check_size(value)
        parsed = decode(value, MAX_DEPTH)
        parsed = {} if parsed is None else parsed
    else:
        parsed = exact(value)

    if not isinstance(parsed, dict):
        raise UnreadableError(f"a call's arguments must be an object, not {kind_of(parsed)}")
    return parsed
