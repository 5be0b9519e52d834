"""Decodes a model's answer, as stored in a result file, into calls.

A step of a result file has one of these forms (`decode_step`):

  [{"cd": "{\"folder\": \"docs\"}"}]   calls, each a name with its arguments as JSON text or as an object
  "[cd(folder='docs'), ls()]"          a text; it has calls only in text mode
  null, ""                             an empty answer

A scanner reads call text such as `[cd(folder='docs'), send(text=cat('a.txt'))]` without compiling or evaluating it. All
other formats of `tunecheck.calls` are read as well, because a model may answer in the format that it was trained on.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, cast

from tunecheck._json import JSON
from tunecheck.calls import MAX_CALLS, MAX_CHARACTERS, FunctionCall, Reading, decode, positional_count
from tunecheck.calls._model import MAX_TEXT_DEPTH, NAME, PYTHON_NAME, UnreadableError
from tunecheck.calls._python_text import PythonScanner
from tunecheck.formats._reading import read_calls
from tunecheck.simulators._backend import holds_calls

NO_CALL = "the answer holds no call"

# a text that is one fenced code block: a line with ```python, then `[ls()]`, then ```; group 1 is its content
_FENCED = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
# an empty answer: white space, backticks or an empty list
_NOTHING = re.compile(r"[\s`]*+(?:\[\s*+\])?[\s`]*+")
# the beginning of call text: `[cd(`, `fs.cd (`
_CALL_AHEAD = re.compile(rf"\[?\s*{NAME}\s*\(")

CallMode = Literal["tools", "text"]
"""How a model was prompted: with tools and structured calls, or with functions in the prompt and calls in text."""


def mode_of(result: object) -> CallMode:
    """Return how the model was prompted: "tools" if its result is a list, unless all steps in it are texts."""
    if not isinstance(result, list):
        return "text"
    steps = [step for turn in result if isinstance(turn, list) for step in turn]
    return "text" if steps and all(isinstance(step, str) for step in steps) else "tools"


def decode_step(step: object, *, text_mode: bool = False, tools: object = None) -> Reading:
    """Return the calls of one step (one answer of the model) in a result file; a problem describes unreadable calls.

    With `text_mode`, calls are searched for in a text, and the definitions in `tools` decide the types of its values.
    Without it, any text but an empty one gives a problem. A list is always read as
    `[{"name": "<arguments as JSON>"}, …]`. Never raises.
    """
    if isinstance(step, str) and text_mode:
        return at_most_max_calls(_decode_text(step, tools))

    if step is None or (isinstance(step, str) and not step.strip()):
        return Reading()
    return decode_entries(step, _read_arguments)


def at_most_max_calls(decoded: Reading) -> Reading:
    """Return the reading, or a reading with a problem instead if it has more calls than one answer may make."""
    if len(decoded.calls) > MAX_CALLS:
        return Reading(problem=f"the answer has {len(decoded.calls)} calls, but at most {MAX_CALLS} are made")
    return decoded


def decode_entries(step: object, read: Callable[[object], object]) -> Reading:
    """Return the calls of a step that is a list; for any other step or unreadable calls, a problem.

    `read` reads a call's arguments; it raises a ValueError if that fails. Never raises.
    """
    if not isinstance(step, (list, tuple)):
        return Reading(problem=NO_CALL if isinstance(step, str) else "the answer is neither calls nor text")

    try:
        return at_most_max_calls(Reading(tuple(_calls(step, read))))
    except (ValueError, TypeError, RecursionError) as error:
        return Reading(problem=" ".join(str(error).split())[:400])


def source_text(call: FunctionCall, separator: str = ", ") -> str:
    """Return a call as Python source, `f('a', n=1)`; calls inside its arguments are written as source, too.

    Arguments with the names "0", "1" … are positional: `{"0": "a", "n": 1}` is written as `f('a', n=1)`. `separator`
    stands between arguments.
    """
    positions = {str(position) for position in range(positional_count(call.arguments))}
    arguments = call.arguments.items()
    parts = [_source(value) if name in positions else f"{name}={_source(value)}" for name, value in arguments]
    return f"{call.name}({separator.join(parts)})"


def _source(value: object) -> str:
    """Return an argument's value as Python source, with calls inside lists and dicts.

    A number that is too long to write becomes `…`.
    """
    if isinstance(value, FunctionCall):
        return source_text(value)
    if isinstance(value, dict) and holds_calls(value):
        return "{" + ", ".join(f"{key!r}: {_source(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list) and holds_calls(value):
        return "[" + ", ".join(map(_source, value)) + "]"

    try:
        return repr(value)
    except ValueError:  # an integer with more digits than Python converts
        return "…"


def is_answer(step: object) -> bool:
    """Return True if a step is a text for the user: not empty, and without any call, even an unreadable one."""
    if not isinstance(step, str) or not step.strip():
        return False
    reading = read_calls(step)
    return not reading.calls and reading.problem is None


def _calls(step: Iterable[object], read: Callable[[object], object]) -> Iterator[FunctionCall]:
    """Yield the calls of a result file's list `[{"name": "<arguments as JSON>"}, …]`; arguments may also be an object.

    Raises:
        UnreadableError: an item or its arguments have another form; the message counts calls from 1.
    """
    for number, item in enumerate(step, 1):
        if not isinstance(item, Mapping):
            raise UnreadableError(f"call {number} of the answer must be an object {{name: arguments}}")
        for name, arguments in item.items():
            try:
                value = read(arguments)
            except (ValueError, RecursionError) as error:
                raise UnreadableError(f"call {number} ({name[:60]!r}): the arguments cannot be read: {error}") from None
            if not isinstance(value, Mapping):
                raise UnreadableError(f"call {number} ({name[:60]!r}): the arguments must be an object")
            yield FunctionCall(name, dict(value))


def _read_arguments(arguments: object) -> object:
    """Return arguments as data; only text is read as JSON."""
    return decode(arguments) if isinstance(arguments, str) else arguments


def _decode_text(text: str, tools: object) -> Reading:
    """Return the calls of a text such as `[cd('docs'), ls()]`, also without brackets, fenced, or in another format.

    A text without a call gives the problem `NO_CALL`, but an empty text or an empty list an empty reading. Never
    raises.
    """
    if _NOTHING.fullmatch(text):
        return Reading()

    body = text.strip(" \t\r\n")
    fenced = _FENCED.fullmatch(body)
    body = fenced[1].strip() if fenced else body.strip("`")

    # Call text, whose calls may be nested.
    if _CALL_AHEAD.match(body) and len(body) <= MAX_CHARACTERS:
        scanner = _NestedScanner(body)
        try:
            return Reading(tuple(scanner.all_calls()))
        except (UnreadableError, RecursionError) as error:
            # Any other error: another format, or text that only begins like a call. The general reader describes it.
            if scanner.is_at_limit:
                return Reading(problem=str(error))
    try:
        reading = read_calls(text, tools=tools)
    except ValueError:  # definitions of an unknown kind; the model got them in its prompt
        reading = read_calls(text)

    if reading.problem is not None or reading.calls:
        return Reading(reading.calls, problem=reading.problem)
    return Reading(problem=NO_CALL)


class _NestedScanner(PythonScanner):
    """Reads call text in which an argument may be a call: `send(text=cat('a.txt'))`."""

    __slots__ = ()

    @property
    def is_at_limit(self) -> bool:
        """True at the deepest level, where the limit may have stopped the scanner."""
        return self._depth >= MAX_TEXT_DEPTH

    def _word(self) -> JSON:
        """Read a literal, or a call inside a call's arguments; the call becomes the argument's value."""
        name = PYTHON_NAME.match(self.text, self.position)
        if name is None or not self.text.startswith("(", name.end()):
            return super()._word()

        # Untrusted text: a limit of our own, before Python's recursion limit is reached.
        if self.is_at_limit:
            self._fail(f"calls are nested deeper than {MAX_TEXT_DEPTH} levels")
        self._depth += 1
        call = self.call()
        self._depth -= 1
        return cast("JSON", call)
