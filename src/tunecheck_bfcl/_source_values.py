"""Java and JavaScript source text as values, exactly as BFCL reads it: with patterns, else as text.

The patterns cover only part of the languages: elements are split at every comma, `List.of` is unknown, a Java `long`
needs its `L`, and a JavaScript object ends at the first `}`. They are the same as in the leaderboard's `java_parser.py`
and `js_parser.py`, because published verdicts depend on them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

Reader: TypeAlias = Callable[[str, "str | None"], object]
"""A function of a text and the type of the elements, or None if the definition gives no type."""

_LONGEST = 10_000  # characters of a text that is converted: the patterns' time grows with their square
_JAVA_ARRAY = re.compile(r"new\s+\w+\[\]\s*\{(.*?)\}")
_AS_LIST = re.compile(r"new\s+ArrayList<\w*>\(Arrays\.asList\((.+?)\)\)")
_LIST_BLOCK = re.compile(r"new\s+ArrayList<\w*>\(\)\s*\{\{(.+?)\}\}", re.DOTALL)
_EMPTY_LIST = re.compile(r"new\s+ArrayList<\w*>\(\)")
_ADD = re.compile(r"add\((.+?)\)")
_MAP_BLOCK = re.compile(r"new\s+HashMap<.*?>\s*\(\)\s*\{(.*?)\}", re.DOTALL)
_EMPTY_MAP = re.compile(r"new\s+HashMap<.*?>\s*\(\)", re.DOTALL)
_PUT = 'put("'

_JS_ARRAY = re.compile(r"\[(.*?)\]")
_JS_CONSTRUCTED = re.compile(r"new\s+Array\((.*?)\)")
_JS_CONSTRUCTOR = re.compile(r"new\s+Array\(")
_JS_OBJECT = re.compile(r"\{(.*?)\}")
_JS_OPENING = re.compile(r"\s*+\[")
_JS_LIST_END = re.compile(r"\](?=\s*+(?:(?P<comma>,\s*+\[)|(?P<closer>[\])])))")
_JS_PAIR = re.compile(r"([^:]+):(.*?)(?:,(?:\s*+(?=[^,]+:)|(?=\s+:))|$)")


def declared_value(text: str, language: str, type_name: str, element_type: str | None = None) -> object:
    """Return a text as a value of the parameter's type, or the text itself if it does not match the type.

    Raises:
        KeyError: the language has no such type, or the leaderboard has no reader for it.
    """
    read = TYPES[language][type_name][1]
    if read is None:
        raise KeyError(type_name)
    return read(text, element_type) if len(text) <= _LONGEST else text


def _number(pattern: str, convert: Callable[[str], int | float], *, suffix: bool = False) -> Reader:
    """Return a reader that converts texts that match `pattern`, without their last character if `suffix`.

    The reader returns other texts unchanged.
    """
    compiled = re.compile(pattern)

    def read(text: str, _: str | None) -> object:
        if compiled.match(text) is None:
            return text
        return convert(text.rstrip("\n")[:-1] if suffix else text)

    return read


_integer = _number(r"-?\d+$", int)
_java_float = _number(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[fF]$", float, suffix=True)
_java_double = _number(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$", float)
_java_long = _number(r"-?\d+[lL]$", int, suffix=True)
_js_float = _number(r"-?\d+(?:\.\d+)?$", float)
_js_bigint = _number(r"-?\d+n$", int, suffix=True)


def _boolean(text: str, _: str | None) -> object:
    return {"true": True, "false": False}.get(text, text)


def _keep_text(text: str, _: str | None) -> object:
    return text


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _keep_untyped(text: str, quotes: str) -> object:
    """Return the value of a text without a declared type: true or false, a quoted text, a number, or the text itself.

    `quotes` are the characters that may enclose a text.
    """
    if text in ("true", "false"):
        return text == "true"
    if text[:1] and text[0] in quotes and text[0] == text[-1]:
        return text[1:-1]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _java_array(text: str, element_type: str | None) -> object:
    """Return the elements of a Java array expression `new T[]{…}`, or the text itself if it is not one."""
    array = _JAVA_ARRAY.search(text.strip())
    return [_java_element(part, element_type) for part in _split(array[1]) if part] if array else text


def _java_list(text: str, element_type: str | None) -> object:
    """Return the elements of a Java `ArrayList` expression, or the text itself if it is not one."""
    stripped = text.strip()
    if listed := _AS_LIST.search(stripped):
        parts = _split(listed[1])
    elif block := _LIST_BLOCK.search(stripped):
        parts = [part.strip() for part in _ADD.findall(block[1])]
    else:
        return [] if _EMPTY_LIST.search(stripped) else text
    if element_type in ("String", "char"):
        return [part[1:-1] for part in parts]
    return [_java_element(part, element_type) for part in parts]


def _java_map(text: str, _: str | None) -> object:
    """Return the entries of a Java `HashMap` expression, or the text itself if it is not one."""
    stripped = text.strip()
    if block := _MAP_BLOCK.search(stripped):
        return {key: _java_element(value.strip(), None) for key, value in _puts(block[1])}
    return {} if _EMPTY_MAP.search(stripped) else text


def _puts(text: str) -> Iterator[tuple[str, str]]:
    """Yield key and value of each `put("…", …)`. The key ends at the first `",` with a `)` after it on the line."""
    place = text.find(_PUT)
    while place >= 0:
        line_end = _line_end(text, place)
        start = place + len(_PUT)
        comma, place = text.find('",', start, line_end), text.find(_PUT, place + 1)
        while comma >= 0:
            value = comma + 2 + len(text[comma + 2 :]) - len(text[comma + 2 :].lstrip())
            end = text.find(")", value, _line_end(text, value))
            if end >= 0:
                yield text[start:comma], text[value:end]
                place = text.find(_PUT, end)
                break
            comma = text.find('",', comma + 1, line_end)


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return end if end >= 0 else len(text)


def _java_element(text: str, element_type: str | None) -> object:
    """Return the value of an element. Without a declared type, a long (`1L`) or a float (`1f`) is converted, too."""
    if element_type is not None:
        return declared_value(text, "java", element_type)
    value = _keep_untyped(text, '"')
    for read in (_java_long, _java_float):
        if value is text:
            value = read(text, None)
    return value


def _js_text(text: str, _: str | None) -> object:
    quoted = text[:1] in ("'", '"') and text[0] == text[-1]
    return text[1:-1] if quoted else text


def _js_array(text: str, element_type: str | None) -> object:
    """Return the elements of a JavaScript array, which may contain lists, or the text itself if it is not one."""
    stripped = text.strip()
    if stripped.startswith("[") and (nested := _lists_inside(stripped, 1, "]")):
        return _js_lists(nested)
    array, constructor = _JS_ARRAY.match(stripped), _JS_CONSTRUCTOR.match(stripped)
    if constructor:
        if nested := _lists_inside(stripped, constructor.end(), ")"):
            return _js_lists(nested[nested.startswith("[[") :])  # `new Array([[1], [2]])` has one bracket too many
        array = _JS_CONSTRUCTED.match(stripped)
    if array is None:
        return stripped
    return [_js_element(part, element_type) for part in _split(array[1])] if array[1].strip() else []


def _js_lists(text: str) -> list[object]:
    return [[_js_element(part, None) for part in _split(inner)] for inner in _JS_ARRAY.findall(text)]


def _lists_inside(text: str, start: int, closer: str) -> str | None:
    """Return the text of the comma-separated lists from `start` up to a closer, or None if there are no such lists.

    A list ends at the first `]` on its line after which the rest of the text can still be parsed. The text is read in
    one pass from the end, because a backtracking pattern would need time exponential in the number of lists.
    """
    opening = _JS_OPENING.match(text, start)
    if opening is None:
        return None
    following: tuple[int, int] | None = None  # the next `]` that can end a list, and the end of all lists then
    for end in reversed([*_JS_LIST_END.finditer(text, opening.end())]):
        behind = end.end("comma")
        if behind >= 0 and following and text.find("\n", behind, following[0]) < 0:
            following = end.start(), following[1]
        elif end["closer"] == closer:
            following = end.start(), end.start("closer")
    if following is None or text.find("\n", opening.end(), following[0]) >= 0:
        return None
    return text[opening.end() - 1 : following[1]]


def _js_object(text: str, _: str | None) -> object:
    """Return the members of a JavaScript object, or the text itself if it is not one."""
    stripped = text.strip()
    members = _JS_OBJECT.match(stripped)
    if members is None:
        return stripped
    pairs = _JS_PAIR.findall(members[1]) if ":" in members[1] else []
    return {key.strip().strip("\"'"): _js_member(value.strip()) for key, value in pairs}


def _js_member(text: str) -> object:
    if text.startswith("[") and text.endswith("]"):
        return _js_array(text, None)
    return _js_element(text.strip("\"'").strip(), None)


def _js_element(text: str, element_type: str | None) -> object:
    return _keep_untyped(text, "'\"") if element_type is None else declared_value(text, "javascript", element_type)


TYPES: Mapping[str, Mapping[str, tuple[type, Reader | None]]] = {
    "java": {
        **dict.fromkeys(("byte", "short", "integer"), (int, _integer)),
        "long": (int, _java_long), "float": (float, _java_float), "double": (float, _java_double),
        "boolean": (bool, _boolean),
        **dict.fromkeys(("char", "String", "any"), (str, _keep_text)),
        "Array": (list, _java_array), "ArrayList": (list, _java_list), "HashMap": (dict, _java_map),
        # The leaderboard knows these types but cannot read them: its checker crashes on a row with such a type.
        "Set": (set, None), "Hashtable": (dict, None), "Queue": (list, None), "Stack": (list, None),
    },
    "javascript": {
        "integer": (int, _integer), "Bigint": (int, _js_bigint), "float": (float, _js_float),
        "Boolean": (bool, _boolean), "String": (str, _js_text), "any": (str, _keep_text),
        "array": (list, _js_array), "dict": (dict, _js_object),
    },
}  # fmt: skip
"""For each language and type of the data's definitions: the Python type for comparisons, and the reader."""
