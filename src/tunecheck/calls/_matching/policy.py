"""The policies of typed matching: what counts as the same call, each by its name."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TypedDict

from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean


class PolicyOptions(TypedDict, total=False):
    """`MatchPolicy`'s fields as keywords, for the evaluators that take them."""

    ordered: bool
    allow_extra_calls: bool
    int_equals_float: bool
    ignore_case: bool
    ignore_whitespace: bool
    ignore_list_order: bool
    number_text_equals_number: bool
    absolute_tolerance: float
    relative_tolerance: float
    use_defaults: bool
    alternatives: bool
    validate_schema: bool


@dataclass(frozen=True, slots=True)
class MatchPolicy:
    """How calls are compared. The default is strict: types count, order of calls does not, nothing may be added.

    ordered: the calls must come in the expected order (else any order).
    allow_extra_calls: calls beyond the expected ones do no harm.
    int_equals_float: `5` equals `5.0` everywhere; where the tool definition says `number` it does in any case.
    ignore_case: letter case of text values does not count.
    ignore_whitespace: white space in text values, inside them too, does not count.
    ignore_list_order: lists are compared as multisets.
    number_text_equals_number: `"5"` equals `5` (but neither ever equals `True`).
    absolute_tolerance, relative_tolerance: numbers (integer or not) are equal when they differ by no more than the
        larger of the first and the second times the expected number.
    use_defaults: an optional argument given with its schema's default equals one that is left out.
    alternatives: the ground truth holds for each argument a list of accepted values, as the possible answers of the
        Berkeley Function Calling Leaderboard do: `{"f": {"a": [1, 2], "b": ["", "x"]}}`; `""` among others means
        that the argument may be left out. Objects inside are written in the same way, key by key.
    validate_schema: a call that breaks its tool definition's schema, or whose function is not defined, fails. Where
        definitions are given, both are found and counted in any case.

    Raises:
        ConfigurationError: a switch is not a bool, or a tolerance is not a finite number of at least 0.
    """

    ordered: bool = False
    allow_extra_calls: bool = False
    int_equals_float: bool = False
    ignore_case: bool = False
    ignore_whitespace: bool = False
    ignore_list_order: bool = False
    number_text_equals_number: bool = False
    absolute_tolerance: float = 0.0
    relative_tolerance: float = 0.0
    use_defaults: bool = True
    alternatives: bool = False
    validate_schema: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name), switch=isinstance(field.default, bool))

    @classmethod
    def of(cls, options: PolicyOptions) -> MatchPolicy:
        """A policy from keywords.

        Raises:
            ConfigurationError: a name is unknown, or a value is not of its kind.
        """
        known = {field.name for field in fields(cls)}
        for name in options:
            if name not in known:
                raise ConfigurationError(f"there is no matching policy {name!r}{did_you_mean(name, known)}")
        return cls(**options)

    @property
    def tolerant(self) -> bool:
        """Whether numbers that differ can be equal."""
        return self.absolute_tolerance > 0 or self.relative_tolerance > 0

    @property
    def transitive(self) -> bool:
        """Whether two values that equal a third are equal: then calls that are the same can be paired at sight."""
        return not (self.tolerant or self.alternatives or self.number_text_equals_number)

    def options(self) -> PolicyOptions:
        """All policies by name, as plain data."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[return-value]


def _check(name: str, value: object, *, switch: bool) -> None:
    if switch:
        if not isinstance(value, bool):
            raise ConfigurationError(f"the matching policy {name} is on or off, true or false; not {value!r}")
    elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ConfigurationError(f"the matching policy {name} is a number of at least 0; not {value!r}")
