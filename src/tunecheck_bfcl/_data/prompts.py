"""BFCL's prompts and hints, read as texts from the user's copy. Its code is never run.

`read_hints` returns the additions to function documents. `read_prompts` returns the prompts for the prompting mode and
for functions that later turns add. If a copy has only the data, function documents get Tunecheck's own additions with
the same meaning.

Files are parsed as Python and never run. `read_constants` reads assignments at the top level; this file

    NAME = "bfcl"
    MAPPING = {"classic": {"task": NAME + ": answer."}}
    LIMIT = compute()

has the constants NAME and MAPPING, with "bfcl: answer.". LIMIT is left out, because a call is no constant.
`read_prompts` then returns {"NAME": "bfcl", "MAPPING.classic.task": "bfcl: answer."}.
"""

import ast
import contextlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from tunecheck import DataError
from tunecheck.plugins import JSON, raise_as, read_regular
from tunecheck_bfcl._data.files import HINTS, LONG_CONTEXT, PROMPTS, TOOL_HINTS, BfclFiles, find_bfcl

_AGAIN = "get the data again: delete the copy, then run tunecheck bfcl get [--to FOLDER]"


def parse_python(source: bytes | str, mode: str) -> ast.AST:
    """Return the syntax tree of Python source: a module for the mode "exec", an expression for "eval".

    The parser is tried several times, because it may fail at random.

    Raises:
        SyntaxError: the source is not Python.
        ValueError: the parser failed every time, as CPython 3.11 does for deep nesting.
    """
    # CPython's parser may fail if two threads use it (CPython issue 106905); a retry succeeds.
    for _ in range(10):
        with contextlib.suppress(SystemError):
            return ast.parse(source, mode=mode)
    raise ValueError("Python's parser cannot read the text, which may be nested too deeply")


def parse_file(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file.

    Raises:
        DataError: the file cannot be read, or is not Python.
    """
    with raise_as(DataError, path):
        source = read_regular(path, links=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the benchmark's texts have invalid escapes
            return cast("ast.Module", parse_python(source, "exec"))
    except SyntaxError as error:
        raise DataError(f"{path}, line {error.lineno}: this is not Python: {error.msg}; {_AGAIN}") from None
    except (ValueError, RecursionError, MemoryError):
        raise DataError(f"{path}: the Python code cannot be parsed; {_AGAIN}") from None


def read_constants(path: Path) -> dict[str, object]:
    """Return the constants that a Python file assigns at the top level, by name.

    The last assignment to a name counts. If its value is not a constant, the name is left out.

    Raises:
        DataError: the file cannot be read, or is not Python.
    """
    constants: dict[str, object] = {}
    for statement in parse_file(path).body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                try:
                    constants[name] = _value(value, constants)
                except (ValueError, TypeError, RecursionError, MemoryError):
                    # An earlier value must not stay for a name that now has another one.
                    constants.pop(name, None)
    return constants


def text_constants(path: Path) -> Iterator[str]:
    """Yield every text in a Python file, including the parts of f-strings.

    Raises:
        DataError: the file cannot be read, or is not Python.
    """
    for node in ast.walk(parse_file(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _value(node: ast.expr | None, known: Mapping[str, object]) -> object:
    """Return the value of an expression of literals, texts joined by `+`, and constants in `known`.

    Raises:
        ValueError, TypeError: the expression contains anything else.
    """
    match node:
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.Dict(keys=keys, values=values):
            return {_value(key, known): _value(value, known) for key, value in zip(keys, values, strict=True)}
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return "".join(cast("list[str]", [_value(left, known), _value(right, known)]))
        case ast.expr():
            return cast("object", ast.literal_eval(node))
    raise ValueError("a dict contains `**`, which is not a literal")  # the key of `**` is None


def read_long_context(copy: BfclFiles) -> Mapping[str, JSON]:
    """Return the constants in a copy of BFCL that make states and results long, such as `FILE_CONTENT_EXTENSION`.

    Only literals are read; no code is run. Services share the values, and copy them before they change or return them.

    Raises:
        DataError: The file is missing, is not Python, or contains no constants.
    """
    path = copy.package / LONG_CONTEXT
    if not path.is_file():
        raise DataError(f"{path}: the file is missing, but long-context rows need it; {_AGAIN}")

    constants = {name: value for name, value in read_constants(path).items() if _is_plain(value)}
    if not constants:
        raise DataError(f"{path} contains no constants; {_AGAIN}")
    return cast("Mapping[str, JSON]", constants)


def _is_plain(value: object) -> bool:
    """Return True for JSON and for `...`, which one published list contains and results show."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or value is ... or isinstance(value, (str, int, float))


ADDED_FUNCTIONS = "DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC"
"""The name of the user message in a turn that adds functions, for models with tools."""

ADDED_FUNCTIONS_TEXT = "DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING"
"""The name of that message for models with functions as text. `{functions}` is replaced by the new functions."""

_STYLE = "PROMPT_STYLE_TEMPLATES.classic."
_TEMPLATE = "PROMPT_TEMPLATE_MAPPING.plaintext"
_OUTPUT_FORMAT = "OUTPUT_FORMAT_MAPPING.python"
_PARAMETER_TYPES = "PARAM_TYPE_MAPPING.python"

# A place in a template: {functions}. Braces around anything but a word, as in JSON, are no places.
_PLACE = re.compile(r"\{(\w+)\}")


Hints = Mapping[str, str]
"""Additions to descriptions in function documents, by the names in `_HINTS`."""

# For each hint, Tunecheck's own text, for a copy of BFCL without these texts, and a pattern that finds BFCL's text by a
# few words, so that the text is not copied here. `python` matches a text such as " Write calls in Python 3 syntax.".
_HINTS = {
    # appended to a function's description
    "python": (" Write calls in Python 3.", r" \w.*\bPython 3\b.*\bsyntax\."),
    "java": (" Write calls in Java 8.", r" \w.*\bJava\b.*\bsyntax\."),
    "javascript": (" Write calls in JavaScript.", r" \w.*\bJavaScript\b.*\bsyntax\."),
    # appended to the description of a parameter whose declared type is replaced: for the type any, else before the type
    "java_any": (" Any Java object, written as text.", r" \w.*\bany\b.*\bJava object\b.*"),
    "javascript_any": (" Any JavaScript value, written as text.", r" \w.*\bany\b.*\bJavaScript object\b.*"),
    "java_type": (" Java type ", r" \w.*\bJava "),
    "javascript_type": (" JavaScript type ", r" \w.*\bJavaScript "),
    "type_end": (", written as text.", r" type parameter\b.*\."),
    # around the type of a list's items, and before an object's schema
    "items": (" Its items, not written as text, have the type ", r" \w.*\blist elements\b.* "),
    "items_end": (".", r"; .*\."),
    "entries": (" Its entries, not written as text, have this schema: ", r" \w.*\bdictionary entries\b.* "),
    # for a float that became a number
    "floating": (" A float.", r" \w.*\bfloat type\b.*\."),
}

OWN_HINTS: Hints = {name: own for name, (own, _) in _HINTS.items()}

_LONGEST_HINT = 300
"""The most characters of an addition. Longer texts in the files are something else."""


def read_hints(package: Path) -> Hints:
    """Return BFCL's additions to function documents, found by pattern in a copy; missing ones are Tunecheck's own."""
    hints = {**OWN_HINTS}
    for path in (package / HINTS, package / TOOL_HINTS):
        for text in text_constants(path) if path.is_file() else ():
            if len(text) <= _LONGEST_HINT:
                hints |= {name: text for name, (_, mark) in _HINTS.items() if re.fullmatch(mark, text)}
    return hints


def read_prompts(folder: Path | None = None) -> Mapping[str, str]:
    """Return the prompts in a copy of BFCL by name. Nested ones have dotted names, such as `A.classic.task`.

    The copy is found with `find_bfcl`. Only literals are read; no code is run.

    Raises:
        DataError: there is no copy, or it has no prompts.
    """
    package = find_bfcl(folder).package
    path = package / PROMPTS
    if not path.is_file():
        raise DataError(f"{package}: the file {PROMPTS.as_posix()} is missing; {_AGAIN}")
    return dict(_flat(read_constants(path)))


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the text of each text in nested mappings; values of other types are skipped.

    Each name begins with `prefix`.
    """
    for name, value in values.items():
        if isinstance(value, str):
            yield f"{prefix}{name}", value
        elif isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")


def system_prompt(prompts: Mapping[str, str], functions: Sequence[JSON]) -> str:
    """Return the system prompt for a model that gets functions as text and answers with `[f(a=1), …]`.

    Args:
        prompts: the prompts from `read_prompts`.
        functions: function documents, as in a row's `functions`.
    """
    names = ("persona", "task", "multiturn_behavior", "tool_call_no_tag", "available_tools")
    parts = {name: prompt(prompts, _STYLE + name) for name in names}

    types = {"output_format": prompt(prompts, _OUTPUT_FORMAT), "param_types": prompt(prompts, _PARAMETER_TYPES)}
    parts["tool_call_format"] = _fill(parts["tool_call_no_tag"], types)
    documents = {"format": "json", "functions": json.dumps(functions, indent=4)}
    parts["available_tools"] = _fill(parts["available_tools"], documents)
    return _fill(prompt(prompts, _TEMPLATE), parts)


def prompt(prompts: Mapping[str, str], name: str) -> str:
    """Return a prompt by its name, or raise DataError if the copy of BFCL lacks it."""
    if name not in prompts:
        raise DataError(f"BFCL's {PROMPTS.name} has no prompt {name}; {_AGAIN}")
    return prompts[name]


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with `{name}` replaced by values; other braces stay.

    `str.format` would allow attribute access and fail on other braces.
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)
