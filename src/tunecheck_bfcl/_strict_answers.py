"""One argument against its possible answers, by its types: what the strict mode accepts.

Unlike the leaderboard: `""` says only that the argument may be left out, and is not a value unless it is the schema's
default or the only answer; a text that is nothing but spaces and signs is not the empty text; values inside lists and
objects are compared by type as well (`true` is not 1), texts in them as loosely as others; and an integer stands for a
float however deep. Java and JavaScript values are read properly.
"""

from collections.abc import Mapping, Sequence

from tunecheck.calls._model import tool_name
from tunecheck.episodes._verdicts import RowVerdict, shown
from tunecheck_bfcl._function_rules import Call, ExpectedCall, Rules
from tunecheck_bfcl._leaderboard_answers import normalised
from tunecheck_bfcl._source_literals import source_value
from tunecheck_bfcl._verdicts import failed

_DEEPEST = 100

_TYPES: dict[object, tuple[type, ...]] = {
    **dict.fromkeys(("string", "String", "char"), (str,)),
    **dict.fromkeys(("integer", "byte", "short", "long", "Bigint"), (int,)),
    **dict.fromkeys(("float", "double", "number"), (int, float)),
    **dict.fromkeys(("boolean", "Boolean"), (bool,)),
    **dict.fromkeys(("array", "tuple", "Array", "ArrayList", "Set", "Queue", "Stack"), (list,)),
    **dict.fromkeys(("dict", "object", "HashMap", "Hashtable"), (dict,)),
}

_WHOLE = frozenset({"integer", "byte", "short", "long", "Bigint"})


class StrictRules(Rules):
    """Names with `.` or `_`, values by type."""

    def arguments(self, call: Call, answer: ExpectedCall) -> Mapping[str, object] | RowVerdict:
        ((name, given),) = call.items()
        if tool_name(name) != tool_name(answer.name):
            return failed("simple_function_checker:wrong_func_name", f"called {shown(name)}; expected {answer.name}")
        assert isinstance(given, Mapping)
        return given

    def value_fault(self, value: object, options: Sequence[object], schema: Mapping[str, object]) -> str | None:
        if self.language == "python":
            read = value
        elif isinstance(value, str):
            read = source_value(value, self.language)
        else:
            return "type_error:java" if self.language == "java" else "type_error:js"
        answers = [option for option in options if option != ""]
        accepted = (schema["default"],) if "default" in schema and len(answers) < len(options) else ()
        whole = _type_name(schema) in _WHOLE
        for answer in (*(answers or ("",)), *accepted):
            if _same(read, answer, whole=whole) or (read is not value and _same(value, answer, whole=whole)):
                return None
        return _fault(read, schema)


def _type_name(schema: Mapping[str, object]) -> str:
    """The declared type; empty where it is not a single name, and then any type will do."""
    name = schema.get("type")
    return name if isinstance(name, str) else ""


def _fault(value: object, schema: Mapping[str, object]) -> str:
    types = _TYPES.get(_type_name(schema))
    if types is not None and not (isinstance(value, types) and isinstance(value, bool) == (types == (bool,))):
        return "type_error:simple"
    if isinstance(value, str):
        return "value_error:string"
    if isinstance(value, list):
        return "value_error:list/tuple"
    return "value_error:dict_value" if isinstance(value, dict) else "value_error:others"


def _same(value: object, answer: object, *, whole: bool, depth: int = 0) -> bool:
    """Whether a value is an answer's; `whole` says that a float is not an answer for an integer."""
    if depth > _DEEPEST:
        return False
    if isinstance(value, str) and isinstance(answer, str):
        return value == answer or (normalised(value) == normalised(answer) != "")
    if isinstance(value, bool) or isinstance(answer, bool) or value is None or answer is None:
        return value is answer
    if isinstance(value, (int, float)) and isinstance(answer, (int, float)):
        return value == answer and not (whole and isinstance(value, float))
    if isinstance(value, (list, tuple)) and isinstance(answer, (list, tuple)):
        return len(value) == len(answer) and all(
            _same(each, other, whole=whole, depth=depth + 1) for each, other in zip(value, answer, strict=True)
        )
    if isinstance(value, dict) and isinstance(answer, dict):
        return _same_object(value, answer, depth + 1)
    return False


def _same_object(value: dict[object, object], answer: dict[object, object], depth: int) -> bool:
    """An object's answer has a list of alternatives for each key, `""` if it may be left out; or one value as it is."""
    for key, options in answer.items():
        alternatives = options if isinstance(options, list) else [options]
        if key not in value:
            if "" not in alternatives:
                return False
            continue
        answers = [each for each in alternatives if each != ""] or [""]
        if isinstance(options, list):  # else it is the only alternative already: twice at each depth has no end
            answers.append(options)
        if not any(_same(value[key], each, whole=False, depth=depth) for each in answers):
            return False
    return all(key in answer for key in value)
