"""The comparison of a call with the possible answers, exactly as BFCL V3/V4 does it, with all quirks.

The error types are those of the leaderboard's result files. Published verdicts depend on the quirks of the
leaderboard's `ast_checker.py`, so they are kept: `""` among the answers accepts any empty text or list, dictionaries
are compared without types, and lists of lists are compared without normalising texts. If the leaderboard's checker
crashes on a row, `UnusableAnswerError` is raised.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tunecheck.calls import tool_name
from tunecheck.episodes import RowVerdict, value_text
from tunecheck_bfcl._source_values import TYPES, declared_value
from tunecheck_bfcl._summary import failed_row

_PYTHON_TYPES: dict[str, type] = {
    "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
    "any": str,
}  # fmt: skip

_IGNORED = re.compile(r"[ ,./\-_*^]")


class UnusableAnswerError(Exception):
    """The error for a ground truth or a definition with which no call can be compared."""


Call = Mapping[str, object]
"""A decoded call: `{"f": {"a": 1}}`."""


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call of the ground truth. `arguments` has each parameter's possible values, with `""` if it is optional."""

    name: str
    arguments: Mapping[str, object]

    @classmethod
    def read(cls, value: object) -> ExpectedCall:
        """Read a call of the ground truth, `{"f": {"a": [1, 2]}}`.

        Raises:
            UnusableAnswerError: the value has another form.
        """
        if isinstance(value, dict) and value:
            name, arguments = next(iter(value.items()))
            if isinstance(arguments, dict):
                return cls(name, arguments)
        raise UnusableAnswerError(f"the ground truth holds {value_text(value, 60)}, which is not a call")


@dataclass(frozen=True, slots=True)
class CallSignature:
    """A function's parameters from its document: the schema of each, and the names of the required parameters."""

    name: str
    properties: Mapping[str, object]
    required: Sequence[object]

    @classmethod
    def read(cls, document: object) -> CallSignature:
        """Read the parameters of a function document.

        Raises:
            UnusableAnswerError: there is no document, or it has no parameters.
        """
        if not isinstance(document, dict):
            raise UnusableAnswerError("the ground truth calls a function that has no definition")
        parameters = document.get("parameters")
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        required = parameters.get("required") if isinstance(parameters, dict) else None
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise UnusableAnswerError(f"the definition of {value_text(document.get('name'), 60)} has no parameters")
        return cls(str(document.get("name")), properties, required)

    def required_names(self) -> Iterator[object]:
        """Yield the names of the required parameters.

        Raises:
            UnusableAnswerError: one is a list or an object, on which the leaderboard's checker fails.
        """
        for name in self.required:
            if isinstance(name, (list, dict)):
                raise UnusableAnswerError(f"{self.name} requires {value_text(name, 60)}, which is not a parameter name")
            yield name

    def schema(self, parameter: str) -> Mapping[str, object]:
        """Return the schema of a parameter, or raise UnusableAnswerError if the document has none."""
        schema = self.properties.get(parameter)
        if not isinstance(schema, dict):
            raise UnusableAnswerError(f"the definition of {self.name} has no parameter {value_text(parameter, 60)}")
        return schema


class LeaderboardRules:
    """The leaderboard's rules for a call. `language` is the language of the arguments' values."""

    def __init__(self, language: str, *, dotted: bool) -> None:
        """Set the rules. If `dotted`, a function must be called with the dots in its name, else with underscores."""
        self.language = language
        self._dotted = dotted

    def arguments(self, call: Call, answer: ExpectedCall) -> Mapping[str, object] | RowVerdict:
        """Return the arguments of a call to the expected function, or the verdict on a call of another function.

        Raises:
            UnusableAnswerError: the arguments are not an object, on which the leaderboard's checker fails.
        """
        name = answer.name if self._dotted else tool_name(answer.name)
        if name not in call:
            called = ", ".join(call)
            return failed_row(
                "simple_function_checker:wrong_func_name", f"called {value_text(called)}; expected {name}"
            )
        arguments = call[name]
        if not isinstance(arguments, Mapping):
            raise UnusableAnswerError("the arguments are not an object")
        return arguments

    def failure(self, call: Call, answer: ExpectedCall, signature: CallSignature) -> RowVerdict | None:
        """Return the verdict on a call that differs from the expected call, or None if it is right."""
        arguments = self.arguments(call, answer)
        if isinstance(arguments, RowVerdict):
            return arguments
        for name in signature.required_names():
            if name not in arguments:
                text = f"the required argument {value_text(name)} is missing"
                return failed_row("simple_function_checker:missing_required", text)
        for name, value in arguments.items():
            failure = self._argument_failure(name, value, answer, signature)
            if failure is not None:
                return failure
        for name, value in answer.arguments.items():
            if name not in arguments and "" not in _options(value):
                text = f"the argument {value_text(name)} is missing; expected {_alternatives(_options(value))}"
                return failed_row("simple_function_checker:missing_optional", text)
        return None

    def _argument_failure(
        self, name: str, value: object, answer: ExpectedCall, signature: CallSignature
    ) -> RowVerdict | None:
        """Return the verdict on an argument that is not expected or has a wrong value, or None if it is right."""
        if name not in signature.properties or name not in answer.arguments:
            return failed_row(
                "simple_function_checker:unexpected_param", f"the argument {value_text(name)} is not expected"
            )
        options = _options(answer.arguments[name])
        error = self.value_fault(value, options, signature.schema(name))
        if error is None:
            return None
        return failed_row(error, f"{name} is {value_text(value)}; expected {_alternatives(options)}")

    def value_fault(self, value: object, options: Sequence[object], schema: Mapping[str, object]) -> str | None:
        """Return the leaderboard's error type for a wrong value, or None if one of the possible values matches.

        Values of Java and JavaScript are texts, which are converted to the parameter's type first.

        Raises:
            UnusableAnswerError: the leaderboard's checker fails on the definition or the possible values.
        """
        if self.language == "python":
            return self._python_fault(value, options, schema)
        types = TYPES[self.language]
        type_name = _known_type(schema.get("type"), types)
        if not isinstance(value, str):
            return "type_error:java" if self.language == "java" else "type_error:js"
        elements = _element_type(schema) if type_name in ("Array", "ArrayList", "array") else None
        try:
            read_value = declared_value(value, self.language, type_name, elements)
        except (KeyError, ValueError) as error:  # a type without a reader, or too many digits for the interpreter
            raise UnusableAnswerError(f"a value of type {type_name} cannot be read: {error}") from None
        expected = _Expected(types[type_name][0], None if elements is None else types[_known_type(elements, types)][0])
        return _value_fault(read_value, options, expected)

    def _python_fault(self, value: object, options: Sequence[object], schema: Mapping[str, object]) -> str | None:
        """Return the error type for a wrong value of a Python parameter, or None. An integer is right for a float."""
        type_name = schema.get("type")
        expected = _PYTHON_TYPES[_known_type(type_name, _PYTHON_TYPES)]
        elements = None
        if type_name in ("array", "tuple"):
            elements = _PYTHON_TYPES[_known_type(_element_type(schema), _PYTHON_TYPES)]
        if type_name == "tuple" and type(value) is tuple:
            value = list(value)
        if type_name == "float" and type(value) is int:
            try:
                value = float(value)
            except OverflowError:
                raise UnusableAnswerError("an argument is an integer too large for a float") from None
        return _value_fault(value, options, _Expected(expected, elements))


def _known_type(type_name: object, types: Container[str]) -> str:
    """Return the type name, or raise UnusableAnswerError if the leaderboard does not know the type."""
    if isinstance(type_name, str) and type_name in types:
        return type_name
    raise UnusableAnswerError(f"the definition has the unknown type {value_text(type_name, 60)}")


def _element_type(schema: Mapping[str, object]) -> str:
    """Return the declared type of a list's elements, or raise UnusableAnswerError if none is declared."""
    items = schema.get("items")
    element = items.get("type") if isinstance(items, dict) else None
    if isinstance(element, str):
        return element
    raise UnusableAnswerError("the definition of a list gives no type for its elements")


@dataclass(frozen=True, slots=True)
class _Expected:
    """The Python type of a parameter and, for a list, of its elements."""

    kind: type
    elements: type | None = None


def normalise_text(text: str) -> str:
    """Return a text for comparisons: in lower case, without spaces and `,./-_*^`, and with `'` replaced by `"`."""
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _value_fault(value: object, answers: Sequence[object], expected: _Expected) -> str | None:
    """Return the error type if a value differs from all possible values, or None if one matches.

    A variable's name is compared exactly. Other values are compared by the rules for their type.
    """
    fault, is_variable = _type_fault(value, answers, expected)
    if fault is not None:
        return fault
    if not is_variable:
        if expected.kind is dict:
            return _mapping_fault(value, answers)
        if expected.kind is list and expected.elements is dict:
            return _mappings_fault(value, answers)
        if expected.kind is str:
            accepted = [normalise_text(answer) for answer in answers if isinstance(answer, str)]
            return None if normalise_text(str(value)) in accepted else "value_error:string"
        if expected.kind is list:
            lists = [[_comparable(element) for element in _elements(answer)] for answer in answers]
            return None if [_comparable(element) for element in _elements(value)] in lists else "value_error:list/tuple"
    if isinstance(answers, str) and not isinstance(value, str):
        raise UnusableAnswerError(f"the possible values must be a list, not the text {answers!r:.60}")
    return None if value in answers else "value_error:others"


def _type_fault(value: object, answers: Sequence[object], expected: _Expected) -> tuple[str | None, bool]:
    """Return the error type for a value of the wrong type, and whether the value is a variable's name.

    The error type is None if the type fits. The leaderboard takes possible values of another type than the definition's
    for names of variables.
    """
    answered = next((type(answer) for answer in answers if answer != ""), None)
    is_variable = answered is not None and answered is not expected.kind
    if type(value) is not expected.kind:
        fits = answered is not None and type(value) is answered
        return (None, True) if fits else ("type_error:simple", is_variable)
    if expected.elements is None or any(_elements_fit(value, answer, expected.elements) for answer in answers):
        return None, is_variable
    return "type_error:nested" if answers else "type_error:simple", is_variable


def _elements_fit(value: object, answer: object, elements: type) -> bool:
    """Return True if every element has the type, or if the value or the possible answer is not a list."""
    if not isinstance(answer, list) or not isinstance(value, list):
        return True
    return all(_type_fault(element, answer, _Expected(elements))[0] is None for element in value)


def _comparable(value: object) -> object:
    return normalise_text(value) if isinstance(value, str) else value


def _elements(value: object) -> Sequence[object]:
    """Return a list's elements. An empty dict has none and a text has its characters, as in the leaderboard's loops.

    Raises:
        UnusableAnswerError: another value, on which the leaderboard's checker fails.
    """
    if value == {}:
        return ()
    if isinstance(value, (list, tuple, str)):
        return value
    raise UnusableAnswerError(f"{value!r:.60} is compared with lists but is not a list")


def _mapping_fault(value: object, answers: Sequence[object]) -> str | None:
    """Return None if an object matches one of the possible objects, else the error type of the last comparison."""
    fault: str | None = "dict_checker:unclear"
    for answer in answers:
        if answer == "":
            continue
        fault = _one_mapping_fault(value, answer)
        if fault is None:
            return None
    return fault


def _one_mapping_fault(value: object, answer: object) -> str | None:
    """Return the error type if an object differs from one possible object, or None if they match.

    The possible object has a list of values for each key; `""` among them makes the key optional.
    """
    if not isinstance(value, dict):
        raise UnusableAnswerError(f"{value!r:.60} is compared with objects but is not an object")
    if not isinstance(answer, dict):
        raise UnusableAnswerError(f"the possible value {answer!r:.60} of an object parameter is not an object")
    if any(key not in value and "" not in _elements(values) for key, values in answer.items()):
        return "value_error:dict_key"
    for key, item in value.items():
        if key not in answer:
            return "value_error:dict_key"
        if _comparable(item) not in [_comparable(element) for element in _elements(answer[key])]:
            return "value_error:dict_value"
    return None


def _mappings_fault(value: object, answers: Sequence[object]) -> str | None:
    """Return None if a list of objects matches one of the possible lists, else the error type of the last comparison.

    Objects match as in `_one_mapping_fault`, item by item.

    Raises:
        UnusableAnswerError: the value or an answer has a form on which the leaderboard's checker fails.
    """
    fault: str | None = "list_dict_checker:unclear"
    for answer in answers:
        fault = _one_list_fault(_elements(value), answer)
        if fault is None:
            return None
    return fault


def _one_list_fault(value: Sequence[object], answer: object) -> str | None:
    """Return the error type if a list of objects differs from one possible list, or None if they match."""
    expected = _elements(answer)
    if len(value) != len(expected):
        return "value_error:list_dict_count"
    faults = (_mapping_fault(item, [wanted]) for item, wanted in zip(value, expected, strict=True))
    return next((fault for fault in faults if fault is not None), None)


def _options(value: object) -> Sequence[object]:
    """Return the possible values of an argument as a sequence.

    If they are given as an object, its keys count, because the leaderboard loops over it.

    Raises:
        UnusableAnswerError: another value, on which the leaderboard's checker fails.
    """
    if isinstance(value, dict):
        return tuple(value)
    if isinstance(value, (list, tuple, str)):
        return value
    raise UnusableAnswerError(f"the possible values must be a list, not {value_text(value, 60)}")


def _alternatives(options: Sequence[object]) -> str:
    """Return up to three possible values for a message, joined by "or". The value `""` is left out."""
    values = [option for option in options if option != ""]
    texts = [value_text(value, 80) for value in values[:3]]
    if len(values) > 3:
        texts.append("…")
    return " or ".join(texts) or "nothing"
