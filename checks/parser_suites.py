"""Texts of models with the calls that the test suites of vLLM, SGLang, llama.cpp and Ollama expect from them.

Half of the cases, chosen by a hash, is for looking at; the other half is only counted. A reading that differs from the
server's must be covered by one of the rules below, each of which applies to unseen cases, too.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.formats_cases import Call, as_pairs, exactly

from tunecheck import Reading, read_calls


@dataclass(frozen=True)
class SuiteCase:
    """One text, the tools of its request, and the calls that its server's test expects."""

    family: str
    label: str
    text: str
    tools: Sequence[Mapping[str, Any]] | None
    calls: list[Call]
    asserts_arguments: bool

    @property
    def held_out(self) -> bool:
        """True for the half that nobody looks at while tuning."""
        return hashlib.sha256(f"{self.label} {self.text}".encode()).digest()[0] % 2 == 0

    @property
    def offered(self) -> dict[str, Mapping[str, Any]]:
        """The parameters of the tools by the tools' names."""
        functions = [tool.get("function", tool) for tool in self.tools or ()]
        return {tool["name"]: tool.get("parameters") or {} for tool in functions}

    def read(self) -> Reading:
        """Read the text with the tools of the case."""
        return read_calls(self.text, tools=self.tools)

    def agrees(self, made: list[Call]) -> bool:
        """True if these are the calls that the test expects."""
        same = exactly if self.asserts_arguments else lambda one, other: True
        return len(made) == len(self.calls) and all(
            one[0] == other[0] and same(one[1], other[1]) for one, other in zip(made, self.calls, strict=True)
        )


def suite_cases(folder: Path) -> list[SuiteCase]:
    """Return the cases of `parser_suites/cases.json.xz`."""
    with lzma.open(folder / "parser_suites" / "cases.json.xz") as file:
        rows = json.load(file)
    return [
        SuiteCase(
            row["family"],
            row["file"],
            row["text"],
            row["tools"],
            [(name, arguments) for name, arguments in row["calls"]],
            row["stated"] == "full",
        )
        for row in rows
    ]


# -- where we read otherwise, and why

Rule = Callable[[SuiteCase, Reading], bool]


def _cut_off(case: SuiteCase, reading: Reading) -> bool:
    """A text that ends inside a call: its last call is reported as cut off. Servers return nothing, part or all."""
    both = as_pairs(reading)[: len(case.calls)]
    return reading.cause == "cut_off" and case.agrees(both + case.calls[len(both) :])


def _in_thought(case: SuiteCase, reading: Reading) -> bool:
    """A call inside a thought that is not closed is reported. Some servers end the thought there."""
    return reading.cause == "call_in_reasoning"


def _malformed(case: SuiteCase, reading: Reading) -> bool:
    """A call that breaks its own grammar is reported, and the calls after it are left out. Some servers repair it."""
    return reading.problem is not None and reading.cause is None


def _untyped(case: SuiteCase, reading: Reading) -> bool:
    """Text between tags without a schema: `5` is read as a number, as by most servers; some keep the text."""
    made = as_pairs(reading)
    if [name for name, _ in made] != [name for name, _ in case.calls]:
        return False
    for (name, ours), (_, theirs) in zip(made, case.calls, strict=True):
        properties = case.offered.get(name, {}).get("properties") or {}
        if not isinstance(theirs, dict) or ours.keys() != theirs.keys():
            return False
        for key in ours:
            typed = (properties.get(key) or {}).keys() & {"type", "anyOf", "oneOf", "enum", "$ref"}
            if not exactly(ours[key], theirs[key]) and (typed or not _one_text(ours[key], theirs[key])):
                return False
    return True


def _one_text(one: Any, other: Any) -> bool:
    texts = {each if isinstance(each, str) else json.dumps(each) for each in (one, other)}
    return len({re.sub(r"[\s\"]", "", text).casefold().replace("none", "null") for text in texts}) == 1


def _not_offered(case: SuiteCase, reading: Reading) -> bool:
    """A call of a tool that was not offered is read, and judged as such. Some servers drop it."""
    kept = [call for call in as_pairs(reading) if call[0] in case.offered]
    return bool(case.offered) and len(kept) < len(reading.calls) and case.agrees(kept)


def _name_as_written(case: SuiteCase, reading: Reading) -> bool:
    """A name that is no tool's is kept as it is written, and judged as unknown. Single servers repair it."""
    made = as_pairs(reading)
    unknown = any(name not in case.offered for name, _ in made)
    renamed = [(other[0], one[1]) for one, other in zip(made, case.calls, strict=False)]
    return unknown and len(made) == len(case.calls) and case.agrees(renamed)


def _in_prose(case: SuiteCase, reading: Reading) -> bool:
    """Without tools, JSON in the middle of a sentence is prose: it may be an example."""
    bare = not case.tools and "<" not in case.text and "[" not in case.text.lstrip()[:1]
    return bare and not reading.calls and not case.text.lstrip().startswith("{")


def _without_arguments(case: SuiteCase, reading: Reading) -> bool:
    """An announced JSON object with a name alone is a call without arguments. Some servers drop it."""
    kept = [call for call in as_pairs(reading) if call[1]]
    return "arguments" not in case.text and "parameters" not in case.text and case.agrees(kept)


def _of_another_version(case: SuiteCase, reading: Reading) -> bool:
    """DeepSeek V3.2 and V4 differ in one tag only: either is read. Their servers' parsers know one of them."""
    other = {"deepseek-v4": "<｜DSML｜function_calls>", "deepseek-v3.2": "<｜DSML｜tool_calls>"}.get(case.family)
    return other is not None and other in case.text and not case.calls


_HEADER = re.compile(r"to=user<\|message\|>|<\|message_model\|>\w+<\|content_invoke")


def _by_header(case: SuiteCase, reading: Reading) -> bool:
    """A message's header names another recipient than the call in it. The call counts here; its server drops it."""
    made = as_pairs(reading)
    return bool(_HEADER.search(case.text)) and any(
        case.agrees([call for place, call in enumerate(made) if place != left_out]) for left_out in range(len(made))
    )


RULES: tuple[Rule, ...] = (
    _cut_off,
    _in_thought,
    _malformed,
    _untyped,
    _not_offered,
    _name_as_written,
    _in_prose,
    _by_header,
    _without_arguments,
    _of_another_version,
)


def judged(case: SuiteCase) -> str:
    """Return "exact", the name of the rule that covers the difference, or "wrong"."""
    reading = case.read()
    if case.agrees(as_pairs(reading)):
        return "exact"
    return next((rule.__name__.strip("_") for rule in RULES if rule(case, reading)), "wrong")
