"""The comparison of a call with the possible answers, exactly as BFCL V3/V4 does it, with all quirks.

The error types are those of the leaderboard's result files. Published verdicts depend on the quirks of the
leaderboard's `ast_checker.py`, `java_parser.py` and `js_parser.py`, so they are kept. `""` among the answers accepts
any empty text or list. Dictionaries are compared without types, and lists of lists without normalising texts. Values
of Java and JavaScript are read with patterns, which cover only part of the languages: elements are split at every
comma, `List.of` is unknown, a Java `long` needs its `L`, and a JavaScript object ends at the first `}`.
If the leaderboard's checker crashes on a row, `UnusableAnswerError` is raised.

`LeaderboardRules.failure` compares one call. The first check that fails gives the error type:

  1. the function's name                     simple_function_checker:wrong_func_name
  2. every required argument is there        simple_function_checker:missing_required
  3. each argument, in the order of the call:
     a. is declared and has possible values  simple_function_checker:unexpected_param
     b. has the declared type                type_error:simple, :nested (a list's elements), :java or :js (no text)
     c. matches a possible value             value_error:string, :list/tuple, :dict_key, :dict_value, …
  4. the other arguments may be left out     simple_function_checker:missing_optional (`""` is not a possible value)

Example: the ground truth `{"f": {"a": [1], "b": ["x", ""]}}` with a required integer `a` and a text `b`.

  {"f": {"a": 1}}               right: `b` is optional
  {"f": {"a": 1, "b": "X."}}    right: texts are compared by `normalise_text`
  {"f": {"a": "1"}}             type_error:simple
  {"f": {"a": 2}}               value_error:others
  {"f": {"a": 1, "c": 3}}       simple_function_checker:unexpected_param

A possible value of another type than the declared one stands for a variable's name: then a value of this other type
is compared exactly (`_type_fault`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from tunecheck.calls import FunctionCall, tool_name
from tunecheck.episodes import RowVerdict, value_text
from tunecheck_bfcl._summary import failed_row

Reader: TypeAlias = Callable[[Any, "str | None"], object]
"""A function of a value (a text, except in Python) and of its elements' type (None if the definition has none)."""

_LONGEST = 10_000  # characters of a text that is converted: the patterns' time grows with their square

# new int[]{1, 2}
_JAVA_ARRAY = re.compile(r"new\s+\w+\[\]\s*\{(.*?)\}")

# new ArrayList<>(Arrays.asList("a", "b"))
_AS_LIST = re.compile(r"new\s+ArrayList<\w*>\(Arrays\.asList\((.+?)\)\)")

# new ArrayList<String>() {{ add("a"); add("b"); }}, in which _ADD finds "a" and "b"; without the block, an empty list
_LIST_BLOCK = re.compile(r"new\s+ArrayList<\w*>\(\)\s*\{\{(.+?)\}\}", re.DOTALL)
_EMPTY_LIST = re.compile(r"new\s+ArrayList<\w*>\(\)")
_ADD = re.compile(r"add\((.+?)\)")

# new HashMap<String, Integer>() {{ put("a", 1); put("b", 2); }}, read by `_map_entries`; without the block, an empty
# map
_MAP_BLOCK = re.compile(r"new\s+HashMap<.*?>\s*\(\)\s*\{(.*?)\}", re.DOTALL)
_EMPTY_MAP = re.compile(r"new\s+HashMap<.*?>\s*\(\)", re.DOTALL)
_PUT = 'put("'

# [1, 'a', true]
_JS_ARRAY = re.compile(r"\[(.*?)\]")

# new Array(1, 2)
_JS_CONSTRUCTED = re.compile(r"new\s+Array\((.*?)\)")
_JS_CONSTRUCTOR = re.compile(r"new\s+Array\(")

# {a: 1, 'b': [1, 2]}, up to the first closing brace: `{a: {b: 1}, c: 2}` has the only member `a` with the text "{b: 1"
_JS_OBJECT = re.compile(r"\{(.*?)\}")

# In [[1, 2], [3]], the second opening bracket, and the two that end a list: before `, [` (comma) or `]` (closer).
_JS_OPENING = re.compile(r"\s*+\[")
_JS_LIST_END = re.compile(r"\](?=\s*+(?:(?P<comma>,\s*+\[)|(?P<closer>[\])])))")

# In the members `a: 1, b: 'x, y', c: 2`, the pairs a and 1, b and 'x, y', c and 2: a comma ends a value if the text up
# to the next comma has a colon.
_JS_PAIR = re.compile(r"([^:]+):(.*?)(?:,(?:\s*+(?=[^,]+:)|(?=\s+:))|$)")


def declared_value(text: str, language: str, type_name: str, element_type: str | None = None) -> object:
    """Return a text as a value of the parameter's type, or the text itself if it does not match the type.

    A text of more than 10,000 characters is not converted.

    Raises:
        KeyError: the language has no such type, or the leaderboard has no reader for it.
    """
    _, read = TYPES[language][type_name]
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


# `_java_float` reads 1.5f, `_java_long` 10L, and `_js_bigint` 5n. Without these letters, the text stays text.
_integer = _number(r"-?\d+$", int)
_java_float = _number(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[fF]$", float, suffix=True)
_java_double = _number(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$", float)
_java_long = _number(r"-?\d+[lL]$", int, suffix=True)
_js_float = _number(r"-?\d+(?:\.\d+)?$", float)
_js_bigint = _number(r"-?\d+n$", int, suffix=True)


def _boolean(text: str, _: str | None) -> object:
    """Return true or false as a boolean, and any other text unchanged."""
    return {"true": True, "false": False}.get(text, text)


def _keep(value: object, _: str | None) -> object:
    """Return the value unchanged."""
    return value


def _unreadable(text: str, _: str | None) -> object:
    """Fail on a type that the leaderboard knows but cannot read: its checker crashes on a row with such a type."""
    raise KeyError("the leaderboard cannot read values of this type")


def _split(text: str) -> list[str]:
    """Return the parts of a text between commas, without white space around them."""
    return [part.strip() for part in text.split(",")]


def _untyped_value(text: str, quotes: str) -> object:
    """Return the value of a text without a declared type: true or false, a quoted text, a number, or the text itself.

    `quotes` are the characters that may enclose a text.
    """
    if text in ("true", "false"):
        return text == "true"

    if text and text[0] in quotes and text[0] == text[-1]:
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

    # The leaderboard cuts the first and last character without a check for quotes.
    if element_type in ("String", "char"):
        return [part[1:-1] for part in parts]
    return [_java_element(part, element_type) for part in parts]


def _java_map(text: str, _: str | None) -> object:
    """Return the entries of a Java `HashMap` expression, or the text itself if it is not one."""
    stripped = text.strip()
    if block := _MAP_BLOCK.search(stripped):
        return {key: _java_element(value.strip(), None) for key, value in _map_entries(block[1])}
    return {} if _EMPTY_MAP.search(stripped) else text


def _map_entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield key and value of each `put("…", …)`. The key ends at the first `",` with a `)` after it on the line.

    `put("a", 1); put("b, c", "d");` yields `("a", "1")` and `("b, c", '"d"')`.
    """
    put_start = text.find(_PUT)
    while put_start >= 0:
        key_start, line_end = put_start + len(_PUT), _line_end(text, put_start)
        key_end = text.find('",', key_start, line_end)
        put_start = text.find(_PUT, put_start + 1)  # the next `put("`, unless an entry is found

        while key_end >= 0:
            # White space before the value is skipped, also over line breaks.
            value_start = len(text) - len(text[key_end + 2 :].lstrip())

            value_end = text.find(")", value_start, _line_end(text, value_start))
            if value_end >= 0:
                yield text[key_start:key_end], text[value_start:value_end]
                put_start = text.find(_PUT, value_end)
                break
            key_end = text.find('",', key_end + 1, line_end)


def _line_end(text: str, start: int) -> int:
    """Return the position of the first line break from `start`, or the length of the text."""
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


def _java_element(text: str, element_type: str | None) -> object:
    """Return the value of an element. Without a declared type, a long (`1L`) or a float (`1f`) is converted, too."""
    if element_type is not None:
        return declared_value(text, "java", element_type)

    value = _untyped_value(text, '"')
    for read in (_java_long, _java_float):
        if value is text:  # not converted yet
            value = read(text, None)
    return value


def _js_text(text: str, _: str | None) -> object:
    """Return a JavaScript text without its quotes, or an unquoted text unchanged."""
    quoted = text[:1] in ("'", '"') and text[0] == text[-1]
    return text[1:-1] if quoted else text


def _js_array(text: str, element_type: str | None) -> object:
    """Return the elements of a JavaScript array, which may contain lists; strip and return a text that is not one."""
    stripped = text.strip()
    nested = _lists_inside(stripped, 1, "]") if stripped.startswith("[") else None
    if nested:
        return _js_lists(nested)

    array, constructor = _JS_ARRAY.match(stripped), _JS_CONSTRUCTOR.match(stripped)
    if constructor:
        if nested := _lists_inside(stripped, constructor.end(), ")"):
            # `new Array([[1], [2]])` has one bracket too many.
            return _js_lists(nested[1:] if nested.startswith("[[") else nested)
        array = _JS_CONSTRUCTED.match(stripped)

    if array is None:
        return stripped
    return [_js_element(part, element_type) for part in _split(array[1])] if array[1].strip() else []


def _js_lists(text: str) -> list[object]:
    """Return the lists in the text of a nested JavaScript array, with the elements of each list."""
    return [[_js_element(part, None) for part in _split(inner)] for inner in _JS_ARRAY.findall(text)]


def _lists_inside(text: str, start: int, closer: str) -> str | None:
    """Return the text of the comma-separated lists from `start` up to a closer, or None if there are no such lists.

    For `[[1, 2], [3]]`, the start 1 and the closer `]`, this is `[1, 2], [3]`.

    A list ends at the first `]` on its line after which the rest of the text can still be parsed. The text is read in
    one pass from the end, because a backtracking pattern would need time exponential in the number of lists.
    """
    opening = _JS_OPENING.match(text, start)
    if opening is None:
        return None

    # The last `]` seen that can end a list, and the closer after the last list. -1 means that there is none.
    next_end = lists_end = -1

    for bracket in reversed([*_JS_LIST_END.finditer(text, opening.end())]):
        after_comma = bracket.end("comma")  # -1 if the bracket is before a closer
        # A bracket before a comma ends a list only if the next list ends on the same line.
        if after_comma >= 0 and next_end >= 0 and text.find("\n", after_comma, next_end) < 0:
            next_end = bracket.start()
        elif bracket["closer"] == closer:
            next_end, lists_end = bracket.start(), bracket.start("closer")

    if next_end < 0 or text.find("\n", opening.end(), next_end) >= 0:
        return None
    return text[opening.end() - 1 : lists_end]


def _js_object(text: str, _: str | None) -> object:
    """Return the members of a JavaScript object; strip and return a text that is not one."""
    stripped = text.strip()
    members = _JS_OBJECT.match(stripped)
    if members is None:
        return stripped
    pairs = _JS_PAIR.findall(members[1]) if ":" in members[1] else []
    return {key.strip().strip("\"'"): _js_member(value.strip()) for key, value in pairs}


def _js_member(text: str) -> object:
    """Return the value of an object's member: a list for a text in brackets, otherwise a value without a type."""
    if text.startswith("[") and text.endswith("]"):
        return _js_array(text, None)
    return _js_element(text.strip("\"'").strip(), None)


def _js_element(text: str, element_type: str | None) -> object:
    """Return the value of an element with its declared type, or without one."""
    return _untyped_value(text, "'\"") if element_type is None else declared_value(text, "javascript", element_type)


def _as_list(value: object, _: str | None) -> object:
    """Return a tuple as a list, because the ground truth is JSON, and any other value unchanged."""
    return list(value) if type(value) is tuple else value


def _as_float(value: object, _: str | None) -> object:
    """Return an integer as a float, and any other value unchanged."""
    return float(value) if type(value) is int else value


TYPES: Mapping[str, Mapping[str, tuple[type, Reader]]] = {
    "python": {
        "string": (str, _keep), "integer": (int, _keep), "float": (float, _as_float), "boolean": (bool, _keep),
        "array": (list, _keep), "tuple": (list, _as_list), "dict": (dict, _keep), "any": (str, _keep),
    },
    "java": {
        **dict.fromkeys(("byte", "short", "integer"), (int, _integer)),
        "long": (int, _java_long), "float": (float, _java_float), "double": (float, _java_double),
        "boolean": (bool, _boolean),
        **dict.fromkeys(("char", "String", "any"), (str, _keep)),
        "Array": (list, _java_array), "ArrayList": (list, _java_list), "HashMap": (dict, _java_map),
        "Set": (set, _unreadable), "Hashtable": (dict, _unreadable),
        "Queue": (list, _unreadable), "Stack": (list, _unreadable),
    },
    "javascript": {
        "integer": (int, _integer), "Bigint": (int, _js_bigint), "float": (float, _js_float),
        "Boolean": (bool, _boolean), "String": (str, _js_text), "any": (str, _keep),
        "array": (list, _js_array), "dict": (dict, _js_object),
    },
}  # fmt: skip
"""For each language and type of the data's definitions: the Python type for comparisons, and the reader of values."""

_LIST_TYPES = ("array", "tuple", "Array", "ArrayList")
"""Types whose elements have a declared type, too."""

# Characters that do not count in a text: `New_York, N.Y.` equals `newyork ny`.
_IGNORED = re.compile(r"[ ,./\-_*^]")


class UnusableAnswerError(Exception):
    """The error for a ground truth or a definition with which no call can be compared."""


Value: TypeAlias = Any
"""A value of a call or of the ground truth. A comparison fails on the same types as the leaderboard's."""

Call = Mapping[str, object]
"""A decoded call: `{"f": {"a": 1}}`."""


# -- the ground truth and the definitions


def expected_call(value: object) -> FunctionCall:
    """Return a call of the ground truth, `{"f": {"a": [1, 2]}}`. Its arguments are lists of possible values.

    `""` among the possible values means that the argument is optional.

    Raises:
        UnusableAnswerError: the value has another form.
    """
    if isinstance(value, dict) and value:
        name, arguments = next(iter(value.items()))
        if isinstance(arguments, dict):
            return FunctionCall(name, arguments)
    raise UnusableAnswerError(f"`ground_truth` has {value_text(value, 60)}, not {{name: {{argument: [values]}}}}")


class CallSignature(msgspec.Struct, frozen=True):
    """A function's parameters from its document: the schema of each, and the names of the required parameters."""

    properties: Mapping[str, Any]
    required: Sequence[object]

    @classmethod
    def read(cls, document: object, function: str, *, lenient: bool = False) -> "CallSignature":
        """Read the parameters of a function document. With `lenient`, a document may lack `properties` or `required`.

        Errors name the `function` if there is no document.

        Raises:
            UnusableAnswerError: there is no document, or one of these parts is missing or has another form.
        """
        if not isinstance(document, dict):
            raise UnusableAnswerError(f"the row lacks the definition of {function[:60]}, which `ground_truth` calls")

        parameters = document.get("parameters")
        known = parameters if isinstance(parameters, dict) else {}
        properties, required = known.get("properties"), known.get("required")
        if lenient:
            properties = {} if properties is None else properties
            required = [] if required is None else required
        # The leaderboard fails on a list or an object among the names only after it has compared the function's name.
        is_usable = isinstance(required, list) and not (lenient and any(isinstance(x, (list, dict)) for x in required))
        if isinstance(properties, dict) and is_usable:
            return cls(properties, cast("list[object]", required))
        raise UnusableAnswerError(f"`parameters` of {function[:60]} needs an object `properties` and a list `required`")


# -- the comparison of a call


class LeaderboardRules:
    """The leaderboard's rules for a call. `language` is the language of the arguments' values."""

    def __init__(self, language: str, *, dotted: bool) -> None:
        """Set the rules. If `dotted`, a function must be called with the dots in its name, else with underscores."""
        self.language = language
        self._dotted = dotted

    def failure(self, call: Call, answer: FunctionCall, signature: CallSignature) -> RowVerdict | None:
        """Return the verdict on a call that differs from the expected call, or None if it is right.

        Raises:
            UnusableAnswerError: the leaderboard's checker fails on the call, the definition or the possible values.
        """
        name = answer.name if self._dotted else tool_name(answer.name)
        if name not in call:
            text = f"called {value_text(', '.join(call))}; expected {name}"
            return failed_row("simple_function_checker:wrong_func_name", text)

        try:
            return self._arguments_failure(cast("Mapping[str, object]", call[name]), answer, signature)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            # The comparison fails on the same values as the leaderboard's, because it works on them in the same way.
            problem = f"{name}: {type(error).__name__}: {error}"
            raise UnusableAnswerError(f"its values cannot be compared ({problem[:200]})") from None

    def _arguments_failure(
        self, arguments: Mapping[str, object], answer: FunctionCall, signature: CallSignature
    ) -> RowVerdict | None:
        """Return the verdict on the first fault, or None if all arguments are right.

        Missing required arguments come first, then unexpected and wrong ones, then other missing arguments.
        """
        accepted: Mapping[str, Value] = answer.arguments
        for required in signature.required:
            if required not in arguments:
                text = f"the required argument {value_text(required)} is missing"
                return failed_row("simple_function_checker:missing_required", text)

        for name, value in arguments.items():
            if name not in signature.properties or name not in accepted:
                text = f"the argument {value_text(name)} is not expected"
                return failed_row("simple_function_checker:unexpected_param", text)

            options = accepted[name]
            error = self._value_fault(value, options, signature.properties[name])
            if error is not None:
                return failed_row(error, f"{name} is {value_text(value)}; expected {_alternatives(options)}")

        # An empty text among the possible values means that the argument may be left out.
        for name, options in accepted.items():
            if name not in arguments and "" not in options:
                text = f"the argument {value_text(name)} is missing; expected {_alternatives(options)}"
                return failed_row("simple_function_checker:missing_optional", text)

        return None

    def _value_fault(self, value: object, options: Sequence[object], schema: Mapping[str, Any]) -> str | None:
        """Return the leaderboard's error type for a wrong value, or None if one of the possible values matches.

        Values of Java and JavaScript are texts, which are converted to the parameter's type first. An integer is right
        for a float of Python.
        """
        types, type_name = TYPES[self.language], schema["type"]
        kind, convert = types[type_name]
        # The decoder keeps values of these languages as source code.
        if self.language != "python" and not isinstance(value, str):
            return "type_error:java" if self.language == "java" else "type_error:js"

        element_type = schema["items"]["type"] if type_name in _LIST_TYPES else None
        element_kind = None if element_type is None else types[element_type][0]
        if self.language == "python":
            converted = convert(value, None)
        else:
            converted = declared_value(str(value), self.language, type_name, element_type)
        return _typed_value_fault(converted, options, kind, element_kind)


def normalise_text(text: str) -> str:
    """Return a text for comparisons: in lower case, without spaces and `,./-_*^`, and with `'` replaced by `"`."""
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _typed_value_fault(value: Value, answers: Sequence[object], kind: type, element_kind: type | None) -> str | None:
    """Return the error type if a value differs from all possible values, or None if one matches.

    `kind` is the parameter's Python type, and `element_kind` that of a list's elements. A variable's name is compared
    exactly. Other values are compared by the rules for their type.
    """
    fault, is_variable = _type_fault(value, answers, kind, element_kind)
    if fault is not None:
        return fault

    if not is_variable:
        if kind is dict:
            return _mapping_fault(value, answers)
        if kind is list and element_kind is dict:
            return _last_fault((_one_list_fault(value, answer) for answer in answers), "list_dict_checker:unclear")

        if kind is str:
            accepted = [normalise_text(answer) for answer in answers if isinstance(answer, str)]
            return None if normalise_text(value) in accepted else "value_error:string"
        if kind is list:
            return None if _comparable_items(value) in map(_comparable_items, answers) else "value_error:list/tuple"

    return None if value in answers else "value_error:others"


def _type_fault(
    value: object, answers: Sequence[object], kind: type, element_kind: type | None = None
) -> tuple[str | None, bool]:
    """Return the error type for a value of the wrong type, and whether the value is a variable's name.

    `kind` is the parameter's Python type, and `element_kind` that of a list's elements. The error type is None if the
    type fits. The leaderboard takes possible values of another type than the definition's for names of variables: for
    an integer with the possible value "x", the text "x" has a right type. Only the first possible value that is not
    `""` decides.
    """
    possible_kind = next((type(answer) for answer in answers if answer != ""), None)
    is_variable = possible_kind is not None and possible_kind is not kind

    if type(value) is not kind:
        fits = possible_kind is not None and type(value) is possible_kind
        return (None, True) if fits else ("type_error:simple", is_variable)

    if element_kind is None or any(_elements_fit(value, answer, element_kind) for answer in answers):
        return None, is_variable
    return "type_error:nested" if answers else "type_error:simple", is_variable


def _elements_fit(value: object, answer: object, element_kind: type) -> bool:
    """Return True if every element has the type by `_type_fault`, or if the value or the answer is not a list."""
    if not isinstance(answer, list) or not isinstance(value, list):
        return True
    return all(_type_fault(element, answer, element_kind)[0] is None for element in value)


def _comparable(value: object) -> object:
    """Return a text normalised, and any other value unchanged."""
    return normalise_text(value) if isinstance(value, str) else value


def _comparable_items(values: Value) -> list[object]:
    """Return the elements of a list, or the characters of a text, for comparisons."""
    # By position, as in the leaderboard's loops: an empty object has no elements, and any other fails.
    return [_comparable(values[index]) for index in range(len(values))]


def _last_fault(faults: Iterable[str | None], without_comparison: str) -> str | None:
    """Return None if one of the faults is None, which means a match, else the last fault.

    `without_comparison` is the error type to return if there are no faults at all.
    """
    last = without_comparison
    for fault in faults:
        if fault is None:
            return None
        last = fault
    return last


def _mapping_fault(value: Mapping[str, object], answers: Iterable[Any]) -> str | None:
    """Return None if an object matches one of the possible objects, else the error type of the last comparison."""
    faults = (_one_mapping_fault(value, answer) for answer in answers if answer != "")
    return _last_fault(faults, "dict_checker:unclear")


def _one_mapping_fault(value: Mapping[str, object], answer: Mapping[str, Any]) -> str | None:
    """Return the error type if an object differs from one possible object, or None if they match.

    The possible object has a list of values for each key; `""` among them makes the key optional. `{"a": 1}` matches
    `{"a": [1, 2], "b": ["x", ""]}`.
    """
    fault = None
    for key, item in value.items():
        if key not in answer:
            fault = "value_error:dict_key"
        elif _comparable(item) not in _comparable_items(answer[key]):
            fault = "value_error:dict_value"
        if fault:
            break

    is_key_missing = any(key not in value and "" not in values for key, values in answer.items())
    return "value_error:dict_key" if is_key_missing else fault


def _one_list_fault(value: Sequence[Value], answer: Value) -> str | None:
    """Return the error type if a list of objects differs from one possible list, or None if they match in order."""
    if len(value) != len(answer):
        return "value_error:list_dict_count"
    faults = (_mapping_fault(item, [possible]) for item, possible in zip(value, answer, strict=True))
    return next((fault for fault in faults if fault is not None), None)


def _alternatives(options: Iterable[object]) -> str:
    """Return up to three possible values for a message, joined by "or". The value `""` is left out."""
    values = [option for option in options if option != ""]
    texts = [value_text(value, 80) for value in values[:3]]
    if len(values) > 3:
        texts.append("…")
    return " or ".join(texts) or "nothing"
