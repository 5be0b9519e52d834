"""One call against the answer that a function's definition and the ground truth allow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tunecheck.episodes._verdicts import RowVerdict, shown
from tunecheck_bfcl._verdicts import failed


class UnusableAnswerError(Exception):
    """An answer or a definition that cannot be checked against; its text says what about it."""


Call = Mapping[str, object]
"""A decoded call: `{"f": {"a": 1}}`."""


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """One call of the ground truth: the function, and for each parameter its possible values, `""` if optional."""

    name: str
    arguments: Mapping[str, object]

    @classmethod
    def read(cls, value: object) -> ExpectedCall:
        if isinstance(value, dict) and value:
            name, arguments = next(iter(value.items()))
            if isinstance(arguments, dict):
                return cls(name, arguments)
        raise UnusableAnswerError(f"the ground truth holds {shown(value, 60)}, which is not a call")


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters as its document has them: the schema of each, and which ones are required."""

    name: str
    properties: Mapping[str, object]
    required: Sequence[object]

    @classmethod
    def read(cls, document: object) -> Signature:
        if not isinstance(document, dict):
            raise UnusableAnswerError("the ground truth calls a function that has no definition")
        parameters = document.get("parameters")
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        required = parameters.get("required") if isinstance(parameters, dict) else None
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise UnusableAnswerError(f"the definition of {shown(document.get('name'), 60)} has no parameters")
        return cls(str(document.get("name")), properties, required)

    def required_names(self) -> Iterator[object]:
        for name in self.required:
            if isinstance(name, (list, dict)):
                raise UnusableAnswerError(f"{self.name} requires {shown(name, 60)}, which is not a name")
            yield name

    def schema(self, parameter: str) -> Mapping[str, object]:
        schema = self.properties.get(parameter)
        if not isinstance(schema, dict):
            raise UnusableAnswerError(f"the definition of {self.name} says nothing about {shown(parameter, 60)}")
        return schema


class Rules(ABC):
    """What makes a call right, in one of the two modes; `language` is that of the arguments' values."""

    def __init__(self, language: str) -> None:
        self.language = language

    def failure(self, call: Call, answer: ExpectedCall, signature: Signature) -> RowVerdict | None:
        """Why the call is not the one that the answer asks for; None where it is."""
        given = self.arguments(call, answer)
        if isinstance(given, RowVerdict):
            return given
        for name in signature.required_names():
            if name not in given:
                text = f"the required argument {shown(name)} is missing"
                return failed("simple_function_checker:missing_required", text)
        for name, value in given.items():
            failure = self._argument_failure(name, value, answer, signature)
            if failure is not None:
                return failure
        for name, value in answer.arguments.items():
            if name not in given and "" not in _options(value):
                text = f"the argument {shown(name)} is missing; expected {_alternatives(_options(value))}"
                return failed("simple_function_checker:missing_optional", text)
        return None

    @abstractmethod
    def arguments(self, call: Call, answer: ExpectedCall) -> Mapping[str, object] | RowVerdict:
        """The arguments of the call, if it calls the answer's function."""

    @abstractmethod
    def value_fault(self, value: object, options: Sequence[object], schema: Mapping[str, object]) -> str | None:
        """The type of error of an argument's value; None where it is right."""

    def _argument_failure(
        self, name: str, value: object, answer: ExpectedCall, signature: Signature
    ) -> RowVerdict | None:
        if name not in signature.properties or name not in answer.arguments:
            return failed("simple_function_checker:unexpected_param", f"the argument {shown(name)} is not expected")
        options = _options(answer.arguments[name])
        error = self.value_fault(value, options, signature.schema(name))
        if error is None:
            return None
        return failed(error, f"{name} is {shown(value)}; expected {_alternatives(options)}")


def _options(value: object) -> Sequence[object]:
    if isinstance(value, dict):
        return tuple(value)
    if isinstance(value, (list, tuple, str)):
        return value
    raise UnusableAnswerError(f"the possible values are {shown(value, 60)}, which is not a list")


def _alternatives(options: Sequence[object]) -> str:
    values = [option for option in options if option != ""]
    return " or ".join(shown(value, 80) for value in values[:3]) + (" or …" if len(values) > 3 else "") or "nothing"
