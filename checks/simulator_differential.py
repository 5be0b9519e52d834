"""Differential tests of simulators against the reference: random and recorded calls, replayed on both sides.

    differences(TicketAPI, random_cases(TicketAPI, calls=4_000, seed=1))     # [] where both agree
    differences(TicketAPI, ground_truth_cases(TicketAPI))

A case is one start and the calls made from it. Random calls are drawn from the simulator's own tool definitions, with
arguments out of the start's configuration, earlier arguments, earlier results and a few awkward values, so that they
reach deep states; some have arguments of wrong types. Compared are, call by call: error or not, the text where it
succeeded, and the state afterwards.
"""

from __future__ import annotations

import copy
import functools
import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from checks.simulator_reference_replay import digest
from tests.bfcl_reference import reference_data, reference_python

from tunecheck.calls import FunctionCall
from tunecheck.formats import read_calls
from tunecheck.simulators import Backend, OperationResult, Simulator

__all__ = ["Case", "differences", "entries", "ground_truth_cases", "long_context", "random_cases", "replay_reference"]

Case = dict[str, Any]
"""`{"class", "config", "long_context", "calls": [[name, arguments, positional], …]}`"""

Draw = Callable[[random.Random, Any], Any]
"""Draws a value for a parameter, given the simulator as it is at that moment."""

WORDS = ["a", "b c", "", " ", ".", "x.txt", "Zoë", "10", "0", "None", "a/b", "line one\nline two\n"]
WRONG: list[Any] = [None, True, 0, -1, 3.5, "7", [], ["x"], {}, {"k": 1}]
CALLS_A_CASE = 20
SPARSE = 0.03
"""How often an argument is of any type, or a call has an argument too many or too few."""


@functools.cache
def entries() -> list[dict[str, Any]]:
    """All multi-turn entries of the data with their `ground_truth`, composite ones included."""
    folder = reference_data()
    return [
        {**entry, "ground_truth": answers[entry["id"]]}
        for questions, answers in (
            (path, _answers(path))
            for path in [
                *sorted(folder.glob("BFCL_v4_multi_turn_*.json")),
                folder / "unused_datasets" / "question" / "BFCL_v4_multi_turn_composite.json",
            ]
        )
        for entry in map(json.loads, questions.read_text(encoding="utf-8").splitlines())
    ]


def _answers(questions: Path) -> dict[str, list[list[str]]]:
    unused = questions.parent.parent / "possible_answer" / questions.name
    path = unused if unused.exists() else questions.parent / "possible_answer" / questions.name
    lines = path.read_text(encoding="utf-8").splitlines()
    return {entry["id"]: entry["ground_truth"] for entry in map(json.loads, lines)}


@functools.cache
def long_context() -> Any:
    """The constants of long-context rows, read from the reference's own copy."""
    from tunecheck_bfcl import find_bfcl
    from tunecheck_bfcl._data.prompts import read_long_context

    (package,) = reference_python().parent.parent.glob("lib/python*/site-packages/bfcl_eval")
    return read_long_context(find_bfcl(package))


def ground_truth_cases(simulator: type[Simulator]) -> list[Case]:
    """The ground truth of every entry that involves this simulator: the calls that are its own, in their order."""
    name = simulator.__name__
    return [
        {
            "class": name,
            "config": entry["initial_config"].get(name, {}),
            "long_context": "long_context" in entry["id"] or "composite" in entry["id"],
            "calls": [
                [call.name, *_arguments(call)]
                for turn in entry["ground_truth"]
                for text in turn
                for call in read_calls(f"[{text}]").calls  # none, where a composite entry's text is not Python
                if call.name in simulator.operations()
            ],
        }
        for entry in entries()
        if name in entry["involved_classes"]
    ]


def _arguments(call: FunctionCall) -> tuple[dict[str, Any], list[Any]]:
    named = {key: value for key, value in call.arguments.items() if not key.isdigit()}
    return named, [value for key, value in call.arguments.items() if key.isdigit()]


def random_cases(
    simulator: type[Simulator],
    *,
    calls: int,
    seed: int,
    values: dict[str, Draw] | None = None,
    with_long_context: bool = False,
) -> Iterator[Case]:
    """Cases with so many random calls in all, the same for the same seed.

    `values` draws the values of parameters in a way of its own, by the parameters' names.
    """
    chance = random.Random(seed)
    starts = _starts(simulator.__name__)
    definitions = [each["function"] for each in simulator.tool_definitions()]
    made = 0
    while made < calls:
        config = copy.deepcopy(chance.choice(starts))
        long = with_long_context and chance.random() < 0.3
        case: Case = {"class": simulator.__name__, "config": config, "long_context": long, "calls": []}
        backend = _backend(simulator, case)
        pool = _Pool(chance, config, values or {}, backend.simulators[simulator.__name__])
        for _ in range(min(CALLS_A_CASE, calls - made)):
            definition: Any = chance.choice(definitions)
            arguments = pool.arguments(definition["parameters"])
            case["calls"].append([definition["name"], arguments, []])
            result = backend.call(FunctionCall(definition["name"], copy.deepcopy(arguments)))
            if not result.error:
                pool.keep(result.value)
        made += len(case["calls"])
        yield case


@functools.cache
def _starts(name: str) -> list[dict[str, Any]]:
    texts = {json.dumps(entry["initial_config"][name]) for entry in entries() if name in entry["initial_config"]}
    return [{}, *map(json.loads, sorted(texts))]


class _Pool:
    """Values that calls of one case may be made with: by the key they were seen under, and by type."""

    def __init__(self, chance: random.Random, config: Any, own: dict[str, Draw], simulator: Simulator) -> None:
        self.chance = chance
        self.own = own
        self.simulator = simulator
        self.by_key: dict[str, list[Any]] = {}
        self.by_type: dict[type, list[Any]] = {
            str: list(WORDS),
            int: [0, 1, 2, 3, -1, 10],
            float: [0.0, 0.5, 2.25, -3.0],
        }
        self.keep(config)

    def keep(self, value: Any, key: str = "") -> None:
        if isinstance(value, dict):
            for name, each in value.items():
                self.keep(name, key)
                self.keep(each, str(name))
        elif isinstance(value, (list, tuple, set)):
            for each in list(value)[:20]:
                self.keep(each, key)
        elif value is not None and len(str(value)) < 300:
            self.by_key.setdefault(key, []).append(value)
            self.by_type.setdefault(type(value), []).append(value)

    def arguments(self, schema: Any) -> dict[str, Any]:
        made = {
            name: self.value(name, each)
            for name, each in schema["properties"].items()
            if (name in schema["required"] and self.chance.random() > SPARSE / 3) or self.chance.random() < 0.5
        }
        if self.chance.random() < SPARSE / 3:
            made["unexpected"] = 1
        self.keep(made)
        return made

    def value(self, name: str, schema: Any) -> Any:
        chance = self.chance
        if chance.random() < SPARSE:
            return copy.deepcopy(chance.choice(WRONG))
        if name in self.own:
            return self.own[name](chance, self.simulator)
        if "enum" in schema:
            return chance.choice(schema["enum"])
        if chance.random() < 0.4 and (known := self._known(name, schema.get("type"))):
            return chance.choice(known)
        return self._typed(schema)

    def _known(self, name: str, sort: str) -> list[Any]:
        types = {"string": (str,), "integer": (int,), "number": (int, float)}.get(sort, ())
        return [each for each in self.by_key.get(name, []) if isinstance(each, types) and not isinstance(each, bool)]

    def _typed(self, schema: Any) -> Any:
        sort = schema.get("type")
        if sort == "array":
            return [self._typed(schema.get("items", {})) for _ in range(self.chance.choice([0, 1, 2, 3]))]
        if sort == "object":
            return {
                self.chance.choice(self.by_type[str]): self._typed({}) for _ in range(self.chance.choice([0, 1, 2]))
            }
        if sort == "boolean":
            return self.chance.random() < 0.5
        kind = {"string": str, "integer": int, "number": float}.get(sort) or self.chance.choice([str, int, float])
        if kind is float and self.chance.random() < 0.5:
            kind = int
        return self.chance.choice(self.by_type[kind])


def differences(simulator: type[Simulator], cases: Iterator[Case] | Sequence[Case], *, at_most: int = 20) -> list[str]:
    """What differs between the reference and ours, a line each; empty where nothing does.

    A case ends where the reference's state holds itself; ours must have refused that call.
    """
    all_cases = list(cases)
    found: list[str] = []
    for case, reference in zip(all_cases, replay_reference(all_cases), strict=True):
        found += _compared(simulator, case, reference)
        if len(found) >= at_most:
            break
    return found[:at_most]


def replay_reference(cases: Sequence[Case], script: str = "simulator_reference_replay.py") -> list[dict[str, Any]]:
    """What the reference makes of each case; see `simulator_reference_replay`."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "cases"), Path(folder, "out")
        source.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
        command = [str(reference_python()), str(Path(__file__).with_name(script)), str(source), str(target)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]


def _compared(simulator: type[Simulator], case: Case, reference: dict[str, Any]) -> list[str]:
    if reference["load_error"]:
        return [f"the reference cannot load {json.dumps(case['config'])[:300]}: {reference['load_error']}"]
    backend = _backend(simulator, case)
    done: list[str] = []
    for (name, arguments, positional), theirs in zip(case["calls"], reference["results"], strict=True):
        given = {str(place): value for place, value in enumerate(positional)} | arguments
        result = backend.call(FunctionCall(name, copy.deepcopy(given)))
        done.append(f"{name}({arguments!r}, {positional!r})")
        if theirs["state"] == "endless":
            return [] if result.error else [f"{done[-1]} made an endless state, ours: {result.text[:300]}"]
        problem = _problem(theirs, result, digest(backend.states()[case["class"]]))
        if problem:
            return [f"{case['class']} {json.dumps(case['config'])[:1500]}\n  " + "\n  ".join(done) + f"\n  {problem}"]
    shown = backend.state_texts().get(case["class"], {})
    return (
        [] if shown == reference["state_text"] else [f"logged: {shown}\n  reference: {reference['state_text']}"[:3000]]
    )


def _problem(theirs: dict[str, Any], ours: OperationResult, state: str) -> str:
    if theirs["error"] != ours.error or (not ours.error and theirs["text"] != ours.text):
        told = f"reference: {'ERROR ' * theirs['error']}{theirs['text'][:1500]}"
        return f"{told}\n  ours: {'ERROR ' * ours.error}{ours.text[:1500]}"
    return "" if theirs["state"] == state else "the states differ"


def _backend(simulator: type[Simulator], case: Case) -> Backend:
    made = simulator()
    made.load(copy.deepcopy(case["config"]), long_context=long_context() if case["long_context"] else None)
    return Backend({case["class"]: made})
