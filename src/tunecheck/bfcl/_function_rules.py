"""One call against the answer that a function's definition and the ground truth allow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tunecheck.bfcl._possible_answers import Expected, UnusableAnswerError, value_fault
from tunecheck.bfcl._source.java import JAVA_TYPES, java_value
from tunecheck.bfcl._source.javascript import JAVASCRIPT_TYPES, javascript_value
from tunecheck.bfcl._verdicts import Mismatch, shown

Call = Mapping[str, object]
"""A decoded call: `{"f": {"a": 1}}`."""

_PYTHON_TYPES: dict[object, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One call of the ground truth: the function, and for each parameter its possible values, `""` if optional."""

    name: str
    arguments: Mapping[str, object]

    @classmethod
    def read(cls, value: object) -> Answer:
        """The answer in `{"f": {"a": [1, 2]}}`.

        Raises:
            UnusableAnswerError: it is something else.
        """
        if isinstance(value, dict) and value:
            name, arguments = next(iter(value.items()))
            if isinstance(arguments, dict):
                return cls(name, arguments)
        raise UnusableAnswerError(f"the ground truth holds {shown(value, 60)}, which is no call")


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters as its document has them: the schema of each, and which ones are required."""

    name: str
    properties: Mapping[str, object]
    required: Sequence[object]

    @classmethod
    def read(cls, document: object) -> Signature:
        """The signature in a function document.

        Raises:
            UnusableAnswerError: it has no parameters.
        """
        if not isinstance(document, dict):
            raise UnusableAnswerError("the ground truth calls a function that has no definition")
        parameters = document.get("parameters")
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        required = parameters.get("required") if isinstance(parameters, dict) else None
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise UnusableAnswerError(f"the definition of {shown(document.get('name'), 60)} has no parameters")
        return cls(str(document.get("name")), properties, required)

    def required_names(self) -> Iterator[object]:
        """The parameters that must be given.

        Raises:
            UnusableAnswerError: at the first that can be no name.
        """
        for name in self.required:
            if isinstance(name, (list, dict)):
                raise UnusableAnswerError(f"{self.name} requires {shown(name, 60)}, which is no name")
            yield name

    def schema(self, parameter: str) -> Mapping[str, object]:
        """A parameter's schema.

        Raises:
            UnusableAnswerError: it is no object.
        """
        schema = self.properties.get(parameter)
        if not isinstance(schema, dict):
            raise UnusableAnswerError(f"the definition of {self.name} says nothing about {shown(parameter, 60)}")
        return schema


class Rules(ABC):
    """What makes a call right, in one of the two modes; `language` is that of the arguments' values."""

    def __init__(self, language: str, *, dots_as_underscores: bool) -> None:
        self.language = language
        self._dots_as_underscores = dots_as_underscores

    def called_name(self, name: str) -> str:
        """The name under which a model calls the function."""
        return name.replace(".", "_") if self._dots_as_underscores else name

    def fault(self, call: Call, answer: Answer, signature: Signature) -> Mismatch | None:
        """Why the call is not the one that the answer asks for; None where it is."""
        given = self.arguments(call, answer)
        if isinstance(given, Mismatch):
            return given
        for name in signature.required_names():
            if name not in given:
                text = f"the required argument {shown(name)} is missing"
                return Mismatch("simple_function_checker:missing_required", text)
        for name, value in given.items():
            fault = self._argument_fault(name, value, answer, signature)
            if fault is not None:
                return fault
        return _left_out(given, answer)

    @abstractmethod
    def arguments(self, call: Call, answer: Answer) -> Mapping[str, object] | Mismatch:
        """The arguments of the call, if it calls the answer's function."""

    @abstractmethod
    def value_fault(self, value: object, options: Sequence[object], schema: Mapping[str, object]) -> str | None:
        """The type of error of an argument's value; None where it is right."""

    def _argument_fault(self, name: str, value: object, answer: Answer, signature: Signature) -> Mismatch | None:
        if name not in signature.properties or name not in answer.arguments:
            return Mismatch("simple_function_checker:unexpected_param", f"the argument {shown(name)} is not expected")
        options = _options(answer.arguments[name])
        error = self.value_fault(value, options, signature.schema(name))
        if error is None:
            return None
        return Mismatch(error, f"{name} is {shown(value)}; expected {_alternatives(options)}")


def _left_out(given: Mapping[str, object], answer: Answer) -> Mismatch | None:
    for name, options in answer.arguments.items():
        if name not in given and "" not in _options(options):
            return Mismatch(
                "simple_function_checker:missing_optional",
                f"the argument {shown(name)} is missing; expected {_alternatives(_options(options))}",
            )
    return None


def _options(value: object) -> Sequence[object]:
    if isinstance(value, dict):
        return tuple(value)
    if isinstance(value, (list, tuple, str)):
        return value
    raise UnusableAnswerError(f"the possible values are {shown(value, 60)}, which is no list")


def _alternatives(options: Sequence[object]) -> str:
    values = [option for option in options if option != ""]
    return " or ".join(shown(value, 80) for value in values[:3]) + (" or …" if len(values) > 3 else "") or "nothing"


class LeaderboardRules(Rules):
    """Exactly those of the leaderboard's checker."""

    def arguments(self, call: Call, answer: Answer) -> Mapping[str, object] | Mismatch:
        """Only the expected name is looked at; a call with several names is decoded with its first."""
        name = self.called_name(answer.name)
        if name not in call:
            called = ", ".join(call)
            return Mismatch("simple_function_checker:wrong_func_name", f"called {shown(called)}; expected {name}")
        given = call[name]
        if not isinstance(given, Mapping):
            raise UnusableAnswerError("the arguments are no object")
        return given

    def value_fault(self, value: object, options: Sequence[object], schema: Mapping[str, object]) -> str | None:
        """The value is read in its language, then compared."""
        if self.language == "python":
            return self._python_fault(value, options, schema)
        java = self.language == "java"
        types, read = (JAVA_TYPES, java_value) if java else (JAVASCRIPT_TYPES, javascript_value)
        type_name = _known(schema.get("type"), types)
        if not isinstance(value, str):
            return "type_error:java" if java else "type_error:js"
        elements = _element_type(schema) if type_name in ("Array", "ArrayList", "array") else None
        try:
            read_value = read(value, type_name, elements)
        except (KeyError, ValueError) as error:  # a type without a reader; digits beyond the interpreter's limit
            raise UnusableAnswerError(f"a value of type {type_name} cannot be read: {error}") from None
        expected = Expected(types[type_name], None if elements is None else types[_known(elements, types)])
        return value_fault(read_value, options, expected)

    def _python_fault(self, value: object, options: Sequence[object], schema: Mapping[str, object]) -> str | None:
        type_name = schema.get("type")
        expected = _PYTHON_TYPES[_known(type_name, _PYTHON_TYPES)]
        elements = None
        if type_name in ("array", "tuple"):
            elements = _PYTHON_TYPES[_known(_element_type(schema), _PYTHON_TYPES)]
        if type_name == "tuple" and type(value) is tuple:
            value = list(value)
        if type_name == "float" and type(value) is int:
            value = _as_float(value)
        return value_fault(value, options, Expected(expected, elements))


def _as_float(value: int) -> object:
    try:
        return float(value)
    except OverflowError:
        raise UnusableAnswerError("an integer too large for a float") from None


def _known(type_name: object, types: Mapping[object, type] | Mapping[str, type]) -> str:
    if isinstance(type_name, str) and type_name in types:
        return type_name
    raise UnusableAnswerError(f"the definition has a type {shown(type_name, 60)}")


def _element_type(schema: Mapping[str, object]) -> str:
    items = schema.get("items")
    element = items.get("type") if isinstance(items, dict) else None
    if isinstance(element, str):
        return element
    raise UnusableAnswerError("the definition of a list does not say of what")
