"""One call against the answer that a function's definition and the ground truth allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tunecheck.episodes import shown


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
