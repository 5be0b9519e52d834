"""What a kind of memory test gives, checked: kinds may be somebody's own code, which may give anything."""

from __future__ import annotations

import math

from tunecheck._errors import ConfigurationError
from tunecheck._json import plain
from tunecheck.memory._definitions import definition_data
from tunecheck.memory._model import AskJudge, Definition, Points, Say, Step, Wait

_SHOWN = 60


def checked_definitions(title: str, made: object) -> list[Definition]:
    """The definitions that a kind of this title made.

    Raises:
        ConfigurationError: they are no such list; the text says what is wrong.
    """
    if not isinstance(made, (list, tuple)):
        raise ConfigurationError(f"it made {_shown(made)}, and no list of definitions")
    known: set[str] = set()
    for each in made:
        if not isinstance(each, Definition):
            raise ConfigurationError(f"it made {_shown(each)} where a Definition is due")
        if each.title != title:
            raise ConfigurationError(f"it made a test of {each.title!r}, and its title is {title!r}")
        if each.example in known:
            raise ConfigurationError(f"it made two tests with the example {each.example!r}")
        known.add(each.example)
        try:
            plain(definition_data(each))
        except (TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(f"its test {each.example!r} has no JSON form: {error}") from None
    return [*made]


def check_step(step: object) -> Step:
    """A test's next step, as it is.

    Raises:
        ValueError: it is none; the text says what is wrong.
    """
    if isinstance(step, Say):
        if not isinstance(step.message, str):
            raise ValueError(f"it says {_shown(step.message)}, which is no text")
        step.message.encode()  # half a character (a lone surrogate) cannot be sent to anybody
    elif isinstance(step, Wait):
        for name in ("tokens", "seconds"):
            value = getattr(step, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"it waits for {_shown(value)} {name}, which must be a whole number from 0")
        if not _is_number(step.percentage) or step.percentage < 0:
            raise ValueError(f"it waits for {_shown(step.percentage)} percent, which must be a number from 0")
    elif isinstance(step, AskJudge):
        if not isinstance(step.purpose, str) or not isinstance(plain(step.values), dict):
            raise ValueError("it asks the judge something that is not a purpose with values by name")
    else:
        raise ValueError(f"it yields {_shown(step)}, which is no Say, Wait or AskJudge")
    return step


def check_points(points: object) -> Points | None:
    """What a test came to, as it is.

    Raises:
        ValueError: it is neither Points nor None.
    """
    if points is None:
        return None
    if not isinstance(points, Points):
        raise ValueError(f"it ends with {_shown(points)}, which is no Points")
    if not _is_number(points.points) or not _is_number(points.most):
        raise ValueError(f"it ends with {_shown(points.points)} of {_shown(points.most)} points")
    return points


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
