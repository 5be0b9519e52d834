"""BFCL's prompts and hints, read as texts from the user's copy and never run.

`PromptWording` is what is added to function documents, `read_prompts` what the prompting mode and later functions need.
If a copy lacks these files (it holds the data alone), function documents get words of ours with the same meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck_bfcl._data.constants import read_constants, text_constants
from tunecheck_bfcl._data.files import HINTS, PROMPTS, TOOL_HINTS, find_bfcl

ADDED_FUNCTIONS = "DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC"
"""The prompt that is the user's message in a turn which adds functions, for models that are given tools."""

ADDED_FUNCTIONS_TEXT = "DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING"
"""The same for models that are given the functions as text, with a place `{functions}` for the new ones."""

_STYLE = "PROMPT_STYLE_TEMPLATES.classic."
_TEMPLATE = "PROMPT_TEMPLATE_MAPPING.plaintext"
_OUTPUT_FORMAT = "OUTPUT_FORMAT_MAPPING.python"
_PARAMETER_TYPES = "PARAM_TYPE_MAPPING.python"

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class PromptWording:
    """Additions to descriptions in function documents; the defaults are ours, for a copy without its own.

    `python`, `java`, `javascript` go behind a function's; the others go behind the description of a parameter that
    loses its declared type: `…_type` around the type, `…_any` for any, `items` around the type of a list's items,
    `entries` before the schema of an object; `floating` where a float became a number.
    """

    python: str = " Write calls in Python 3."
    java: str = " Write calls in Java 8."
    javascript: str = " Write calls in JavaScript."
    java_any: str = " Any Java object, written as text."
    javascript_any: str = " Any JavaScript value, written as text."
    java_type: str = " Java type "
    javascript_type: str = " JavaScript type "
    type_end: str = ", written as text."
    items: str = " Its items, not written as text, have the type "
    items_end: str = "."
    entries: str = " Its entries, not written as text, have this schema: "
    floating: str = " A float."

    @classmethod
    def read(cls, package: Path) -> PromptWording:
        """Read the words of a copy of BFCL; ours stand in for missing ones."""
        words: dict[str, str] = {}
        for path in (package / HINTS, package / TOOL_HINTS):
            for text in text_constants(path) if path.is_file() else ():
                if len(text) <= _LONGEST_WORDING:
                    words |= {name: text for name, mark in _MARKS.items() if re.fullmatch(mark, text)}
        return cls(**words)


# The words that each text holds, in this order, from its start to its end.
_MARKS = {
    "python": r" \w.*\bPython 3\b.*\bsyntax\.",
    "java": r" \w.*\bJava\b.*\bsyntax\.",
    "javascript": r" \w.*\bJavaScript\b.*\bsyntax\.",
    "java_any": r" \w.*\bany\b.*\bJava object\b.*",
    "javascript_any": r" \w.*\bany\b.*\bJavaScript object\b.*",
    "java_type": r" \w.*\bJava ",
    "javascript_type": r" \w.*\bJavaScript ",
    "type_end": r" type parameter\b.*\.",
    "items": r" \w.*\blist elements\b.* ",
    "items_end": r"; .*\.",
    "entries": r" \w.*\bdictionary entries\b.* ",
    "floating": r" \w.*\bfloat type\b.*\.",
}

_LONGEST_WORDING = 300


def read_prompts(folder: Path | None = None) -> Mapping[str, str]:
    """Return the prompts in a copy of BFCL by name; tables have dotted names (`PROMPT_STYLE_TEMPLATES.classic.task`).

    `folder` is looked for as `find_bfcl` does. Only literals are read, nothing is run.

    Raises:
        DataError: there is no copy, or it has no prompts.
    """
    package = find_bfcl(folder).package
    path = package / PROMPTS
    if not path.is_file():
        raise DataError(f"{package}: there is no {PROMPTS.as_posix()} in it; get it with: tunecheck bfcl get")
    return dict(_flat(read_constants(path)))


def _flat(values: Mapping[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, str):
            yield above + str(name), value
        elif isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")


def system_prompt(prompts: Mapping[str, str], functions: Sequence[JSON]) -> str:
    """Return the system prompt for a model that gets functions as text and answers with `[f(a=1), …]`.

    Args:
        prompts: as `read_prompts` gives them.
        functions: function documents, as a row's `functions`.
    """
    call_format = _fill(
        prompt(prompts, _STYLE + "tool_call_no_tag"),
        {"output_format": prompt(prompts, _OUTPUT_FORMAT), "param_types": prompt(prompts, _PARAMETER_TYPES)},
    )
    available = _fill(
        prompt(prompts, _STYLE + "available_tools"), {"format": "json", "functions": json.dumps(functions, indent=4)}
    )
    return _fill(
        prompt(prompts, _TEMPLATE),
        {
            "persona": prompt(prompts, _STYLE + "persona"),
            "task": prompt(prompts, _STYLE + "task"),
            "tool_call_format": call_format,
            "multiturn_behavior": prompt(prompts, _STYLE + "multiturn_behavior"),
            "available_tools": available,
        },
    )


def prompt(prompts: Mapping[str, str], name: str) -> str:
    if name not in prompts:
        raise DataError(f"the copy of BFCL has no prompt {name}; get it with: tunecheck bfcl get")
    return prompts[name]


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Return the filled template; `str.format` would look into attributes and fail on a brace."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)
