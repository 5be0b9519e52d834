"""A row's expected and actual calls side by side; what of them is wrong is what an evaluator said.

Nothing is judged here: calls are laid beside each other, and each argument is marked that a fault names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from tunecheck._faults import Fault, title
from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall, Reading, tool_name
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.formats._reading import read_calls, tools_of
from tunecheck.report._texts import as_json, as_text, cut

ANSWER = "(an answer)"
"""What stands for the function where an answer in words was expected or given."""
UNREADABLE, NO_CALL = "(unreadable call)", "(no call)"

_MOST_CALLS = 100
_MOST_ARGUMENTS = 200
_MOST_NOTES = 30
_MARKS = {"missing_argument": "missing", "unexpected_argument": "unexpected"}
_WHOLE_CALLS = ("missing_call", "extra_call", "misnamed_call", "call_out_of_order")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_NOTHING = object()


class JudgedCalls(msgspec.Struct, frozen=True):
    """What an evaluator said of a row's calls: nothing is wrong but the `faults`, if it looks at `arguments`, too.

    `alternatives` is whether expected arguments are lists of accepted values for it; None where it is not known.
    """

    faults: tuple[Fault, ...] = ()
    arguments: bool = True
    alternatives: bool | None = None


class Sides(msgspec.Struct, frozen=True):
    """What is laid side by side; `judged` is None where no evaluator says anything of the calls.

    `text` is what the model said beside its calls, `tools` the definitions of the row's tools.
    """

    ground_truth: JSON
    response: JSON
    text: JSON
    judged: JudgedCalls | None
    tools: JSON = None

    def asks_the_same(self, other: Sides | None) -> bool:
        """Whether the other has this ground truth, and these tools."""
        return other is not None and (self.ground_truth, self.tools) == (other.ground_truth, other.tools)


class SideBySide(msgspec.Struct):
    """What a page shows of both sides, and the functions by which rows are found.

    `pairs` are `[expected call | None, actual call | None, status, [[path, fault], …]]`, where a call is
    `[name, [[argument, value, mark], …]]`. `confused` pairs an expected function with what was called in its place.
    `wanted` is the ground truth as it was read, by the definitions of its `tools`.
    """

    expected: dict[str, JSON] = {}
    actual: dict[str, JSON] = {}
    pairs: list[JSON] = []
    expected_names: list[str] = []
    called_names: list[str] = []
    confused: list[tuple[str, str]] = []
    wanted: Reading | None = None
    tools: ToolDefinitions | None = None


def side_by_side(sides: Sides, known: SideBySide | None = None) -> SideBySide:
    """Lay a response beside its ground truth; never raises: what cannot be read is shown as it is.

    `known` is another answer to the same, which was laid before: what both share is not made again, nor the functions
    by which rows are found.
    """
    before = known or SideBySide()
    tools = tools_of(sides.tools) if before.tools is None else before.tools
    wanted = read = _read(sides.ground_truth, tools) if before.wanted is None else before.wanted
    made = _read(sides.response, tools)
    judged, alternatives = sides.judged, sides.judged is not None and sides.judged.alternatives
    accepted = _possible_answers(sides.ground_truth) if alternatives is not False or judged is None else ()
    if accepted:
        wanted = Reading(calls=accepted, format="bfcl")
        made = replace(made, calls=tuple(_renamed(made.calls, accepted)))
    compared = SideBySide(actual=_words(made, sides.response, sides.text), wanted=read, tools=tools)
    aligned = _Aligned(wanted.calls, made.calls, judged.faults if judged is not None else ())
    asked = sides.ground_truth is not None
    shown = _shown(aligned, judged, "extra" if asked else "alone", alternatives=bool(accepted) or alternatives is True)
    compared.pairs = [*shown][:_MOST_CALLS]
    if known is None:
        compared.expected = _words(wanted, sides.ground_truth, None)
        compared.expected_names, compared.called_names = names_of(wanted.calls), names_of(made.calls)
        if asked:
            both = wanted.calls and made.calls
            compared.confused = [*(aligned.confused() if both else _answered(wanted, made, compared.actual))]
    return compared


def names_of(calls: Iterable[FunctionCall]) -> list[str]:
    """The functions called, each once, in order."""
    return list(dict.fromkeys(call.name[:200] for call in calls))[:_MOST_CALLS]


def _read(value: JSON, tools: ToolDefinitions) -> Reading:
    single = isinstance(value, dict) and len(value) == 1 and all(isinstance(item, dict) for item in value.values())
    return read_calls([value] if single and not tools else value, tools=tools)


def _possible_answers(value: JSON) -> tuple[FunctionCall, ...]:
    """The calls of BFCL's possible answers, `[{"f": {"a": [1, 2]}}, …]`; none where it is anything else."""
    if not isinstance(value, list) or not value:
        return ()
    calls = []
    for item in value:
        name, arguments = next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else ("", None)
        if not isinstance(arguments, dict) or not all(isinstance(each, list) for each in arguments.values()):
            return ()
        calls.append(FunctionCall(name, arguments))
    return tuple(calls) if any(call.arguments for call in calls) else ()


def _renamed(calls: Iterable[FunctionCall], accepted: Sequence[FunctionCall]) -> Iterator[FunctionCall]:
    """A model cannot be told of dots in a function's name: `math.hcf` is offered, and called, as `math_hcf`."""
    names = {tool_name(call.name): call.name for call in accepted}
    for call in calls:
        yield FunctionCall(names.get(call.name, call.name), call.arguments, call.id)


def _words(reading: Reading, value: JSON, text: JSON) -> dict[str, JSON]:
    words = reading.text if reading.calls else value
    if isinstance(text, str) and text.strip() and text != words:
        words = f"{words}\n{text}" if isinstance(words, str) and words.strip() else text
    described: dict[str, JSON] = {}
    if isinstance(words, str) and words.strip():
        described["text"] = cut(words)
    elif words not in (None, "", [], {}) and not isinstance(words, str):
        described["data"] = as_text(words)
    if reading.problem is not None:
        described["problem"] = cut(reading.problem, 2_000)
    if len(reading.calls) > _MOST_CALLS:
        described["more"] = len(reading.calls) - _MOST_CALLS
    return described


class _Aligned:
    """Which expected call stands beside which actual one: as the faults say, else by name, the first with the first."""

    def __init__(self, wanted: Sequence[FunctionCall], made: Sequence[FunctionCall], faults: Sequence[Fault]) -> None:
        self._wanted, self._made = list(wanted[:_MOST_CALLS]), list(made[:_MOST_CALLS])
        self.pairs: list[tuple[FunctionCall, FunctionCall, str]] = []
        self.missing: list[FunctionCall] = []
        self.extra: list[FunctionCall] = []
        self._as_faults_say(faults)
        self._equal()
        self._as_arguments_say(faults)
        self._by_name()
        order = {id(call): at for at, call in enumerate(wanted)}
        self.pairs.sort(key=lambda pair: order[id(pair[0])])
        self.missing += self._wanted
        self.extra += self._made

    def _as_faults_say(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            if fault.code == "misnamed_call":
                one = _taken(self._wanted, *_named(fault.expected))
                other = _taken(self._made, *_named(fault.actual))
                if one is not None and other is not None:
                    self.pairs.append((one, other, "misnamed"))
                else:
                    self.missing += [one] if one is not None else []
                    self.extra += [other] if other is not None else []
            elif fault.code == "missing_call" and (call := _taken(self._wanted, fault.call, fault.expected)):
                self.missing.append(call)
            elif fault.code == "extra_call" and (call := _taken(self._made, fault.call, fault.actual)):
                self.extra.append(call)

    def _equal(self) -> None:
        for call in list(self._wanted):
            other = _taken(self._made, call.name, call.arguments, strict=True)
            if other is not None:
                self._wanted.remove(call)
                self.pairs.append((call, other, "same"))

    def _as_arguments_say(self, faults: Iterable[Fault]) -> None:
        """Of several calls of one function, those whose values a fault names belong together."""
        for fault in faults:
            if fault.path is None or fault.code in _WHOLE_CALLS:
                continue
            ones = [call for call in self._wanted if call.name == fault.call]
            others = [call for call in self._made if call.name == fault.call]
            fitting = [(one, other) for one in ones for other in others if _is_about(fault, one, other)]
            if len(fitting) == 1:
                self._pair(*fitting[0])

    def _by_name(self) -> None:
        for call in list(self._wanted):
            other = next((other for other in self._made if other.name == call.name), None)
            if other is not None:
                self._pair(call, other)

    def _pair(self, one: FunctionCall, other: FunctionCall) -> None:
        _remove(self._wanted, one)
        _remove(self._made, other)
        self.pairs.append((one, other, "same"))

    def confused(self) -> Iterator[tuple[str, str]]:
        """Expected functions and what was called in their place."""
        for one, other, _ in self.pairs:
            yield one.name[:200], other.name[:200]
        # What is missing on one side and too much on the other was most likely taken for each other.
        for at in range(max(len(self.missing), len(self.extra))):
            expected = self.missing[at].name[:200] if at < len(self.missing) else NO_CALL
            yield expected, self.extra[at].name[:200] if at < len(self.extra) else NO_CALL


def _named(call: object) -> tuple[str | None, object]:
    """The name and the arguments of a whole call in a fault."""
    values = call if isinstance(call, dict) else {}
    return values.get("name"), values.get("arguments", _NOTHING)


def _taken(
    calls: list[FunctionCall], name: str | None, arguments: object, *, strict: bool = False
) -> FunctionCall | None:
    """Take the call out of the list: the one with these very arguments, else the last of that name."""
    alike = [call for call in calls if call.name == name]
    call = next((call for call in alike if call.arguments == arguments), None)
    if call is None and alike and not strict:
        call = alike[-1]
    if call is not None:
        _remove(calls, call)
    return call


def _remove(calls: list[FunctionCall], call: FunctionCall) -> None:
    del calls[next(at for at, each in enumerate(calls) if each is call)]


def _is_about(fault: Fault, one: FunctionCall, other: FunctionCall) -> bool:
    """Whether the values that a fault names stand in these two calls."""
    path = fault.path or ""
    if fault.code == "missing_argument" and _value(other, path) is not _NOTHING:
        return False
    expected = fault.any_of or _agrees(_value(one, path), fault.expected)
    return expected and _agrees(_value(other, path), fault.actual)


def _agrees(value: object, named: object) -> bool:
    """Whether this is the value that a fault names; long texts are cut there, and large values left out."""
    if named is msgspec.UNSET:
        return True
    if isinstance(value, str) and isinstance(named, str) and named.endswith("…"):
        return value.startswith(named[:-1])
    return type(value) is type(named) and value == named


def _value(call: FunctionCall, path: str) -> object:
    """What stands at a place in a call's arguments."""
    name = _argument(path, call.arguments)
    value: object = call.arguments.get(name, _NOTHING) if name is not None else _NOTHING
    for key, index in _STEP.findall(path[len(name or "") :]):
        if isinstance(value, dict):
            value = value.get(key, _NOTHING)
        elif index and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            return _NOTHING
    return value


def _argument(path: str, names: Iterable[str]) -> str | None:
    """The argument in which a place is: the longest name that the path begins with."""
    known = [name for name in names if path == name or path.startswith((f"{name}.", f"{name}["))]
    return max(known, key=len, default=None)


def _shown(aligned: _Aligned, judged: JudgedCalls | None, extra: str, *, alternatives: bool) -> Iterator[JSON]:
    own: list[list[Fault]] = [[] for _ in aligned.pairs]
    moved: set[int] = set()
    for fault in judged.faults if judged is not None else ():
        at = _place(fault, aligned.pairs)
        if at is not None and fault.code == "call_out_of_order":
            moved.add(at)
        elif at is not None and fault.code not in _WHOLE_CALLS:
            own[at].append(fault)
    for at, (one, other, status) in enumerate(aligned.pairs):
        if status == "same":
            status = "moved" if at in moved else "differs" if own[at] else _unfaulted(judged)
        yield _pair(one, other, status, own[at], alternatives=alternatives)
    for call in aligned.missing:
        yield [shown_call(call, alternatives=alternatives), None, "missing", []]
    for call in aligned.extra:
        yield [None, shown_call(call), extra, []]


def _place(fault: Fault, pairs: Sequence[tuple[FunctionCall, FunctionCall, str]]) -> int | None:
    """Which pair a fault is about: of its function, the one in which its values stand, else the first."""
    own = [at for at, (one, other, _) in enumerate(pairs) if fault.call in (one.name, other.name)]
    if fault.code == "call_out_of_order":
        fitting = (at for at in own if _agrees(dict(pairs[at][1].arguments), fault.actual))
    else:
        fitting = (at for at in own if _is_about(fault, *pairs[at][:2]))
    return next(fitting, own[0] if own else None)


def _unfaulted(judged: JudgedCalls | None) -> str:
    """What is said of calls beside each other of which no fault is known."""
    if judged is None:
        return "beside"
    return "same" if judged.arguments else "named"


def _pair(one: FunctionCall, other: FunctionCall, status: str, faults: Sequence[Fault], *, alternatives: bool) -> JSON:
    marks: dict[str, str] = {}
    notes: list[JSON] = []
    for fault in faults:
        name = _argument(fault.path or "", [*one.arguments, *other.arguments])
        if name is not None:
            marks.setdefault(name, _MARKS.get(fault.code, "wrong") if name == fault.path else "wrong")
        notes.append([cut(fault.path or fault.call or "", 300), _in_short(fault)])
    return [shown_call(one, marks, alternatives=alternatives), shown_call(other, marks), status, notes[:_MOST_NOTES]]


def _in_short(fault: Fault) -> str:
    head, _, kind = fault.code.partition(".")
    if head == "wrong_argument" and kind:
        return kind.replace("_", " ")
    return _MARKS.get(fault.code) or cut(fault.message or title(fault.code), 300)


def shown_call(call: FunctionCall, marks: Mapping[str, str] | None = None, *, alternatives: bool = False) -> JSON:
    """A call as `[name, [[argument, value, mark], …]]`, values as JSON text; accepted values beside each other."""
    marks = marks or {}
    arguments: list[JSON] = [
        [cut(name, 200), _accepted(value) if alternatives else as_json(value), marks.get(name, "")]
        for name, value in list(call.arguments.items())[:_MOST_ARGUMENTS]
    ]
    return [cut(call.name, 200), arguments]


def _accepted(value: JSON) -> str:
    if not isinstance(value, list):
        return as_json(value)
    shown = [as_json(each) for each in value if each != ""]
    return cut(" | ".join([*shown, *(["(may be left out)"] if "" in value else [])]))


def _answered(wanted: Reading, made: Reading, actual: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    """Where at least one side has no readable call."""
    other = UNREADABLE if made.problem is not None else ANSWER if actual else NO_CALL
    if wanted.calls:
        yield from ((name, other) for name in names_of(wanted.calls))
    elif made.calls:
        yield from ((ANSWER, name) for name in names_of(made.calls))
    else:
        yield ANSWER, other
