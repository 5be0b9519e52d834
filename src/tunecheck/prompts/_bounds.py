"""What one rendering may cost: steps and text, counted, so that no template can hang or fill the memory."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView

from tunecheck.prompts._prompt import PromptRenderError

MAX_STEPS = 2_000_000
"""What about a second of rendering does; a large prompt takes thousands."""

MAX_TEXT = 4 << 20
"""Most characters that are written in one rendering, and that any text in it has."""

MAX_BITS = 14_000
"""Longest whole number, 4,214 digits: Python by default writes none of more than 4,300."""

_PER_STEP = 16
"""Characters of a text that count as one step: copying them takes about as long."""

_CONTAINERS = (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)
_SCALARS = (str, int, float, type(None))


class TooMuchError(PromptRenderError):
    """A template that asks for too much."""


class Budget:
    """The costs of one rendering so far."""

    __slots__ = ("_characters", "_steps")

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._characters = MAX_TEXT

    def charge(self, steps: int) -> None:
        """Count steps.

        Raises:
            TooMuchError: there have been too many.
        """
        self._steps -= steps
        if self._steps < 0:
            raise TooMuchError("the template takes too many steps: are its loops as long as they should be?")

    def write(self, size: int) -> None:
        """Count written characters.

        Raises:
            TooMuchError: there have been too many.
        """
        self._characters -= size
        if self._characters < 0:
            raise TooMuchError(f"the template writes more than {MAX_TEXT >> 20} MB")

    def allow(self, size: int) -> None:
        """Refuse to make a text or list of that size, if it is too large.

        Raises:
            TooMuchError: it is.
        """
        if size > MAX_TEXT:
            raise TooMuchError(f"the template makes a text or list of {size} and more, which no prompt needs")

    def at_most(self, most: int, number: object, what: str) -> None:
        """Refuse a number of the template's that is too large for its purpose.

        Raises:
            TooMuchError: it is.
        """
        if isinstance(number, int) and abs(number) > most:
            raise TooMuchError(f"{what} of more than {most} is not allowed")

    def weigh(self, *values: object) -> None:
        """Count what looking at all of the values takes.

        Raises:
            TooMuchError: it is too much.
        """
        todo: list[object] = list(values)
        while todo:
            value = todo.pop()
            if isinstance(value, str):
                self.charge(1 + len(value) // _PER_STEP)
                continue
            size = len(value) if isinstance(value, (dict, range, *_CONTAINERS)) else 0
            self.charge(1 + size)
            if isinstance(value, dict):
                todo.extend(value)
                todo.extend(value.values())
            elif isinstance(value, _CONTAINERS):
                todo.extend(value)

    def taken(self, value: object) -> object:
        """What an operation gave: weighed, not too long, and written out where it comes bit by bit.

        Raises:
            TooMuchError: it is too much.
        """
        if isinstance(value, Iterator):
            value = list(self.each(value))
        if isinstance(value, str):
            self.allow(len(value))
        elif isinstance(value, int):
            self.at_most(MAX_BITS, value.bit_length(), "a number of bits")
        self.weigh(value)
        return value

    def each(self, values: Iterator[object], cost: int = 1) -> Iterator[object]:
        """The same items, counted one by one.

        Raises:
            TooMuchError: there are too many.
        """
        for value in values:
            self.charge(cost)
            yield value

    def text_of(self, value: object) -> str:
        """A value as text, as Python writes it.

        Raises:
            TooMuchError: it is too long.
            TypeError: it is not plain data.
        """
        if type(value) in (int, float, bool, type(None)):
            return str(value)
        self._check(value)
        return str(value)

    def _check(self, value: object) -> None:
        todo, characters = [value], 0
        while todo:
            item = todo.pop()
            self.charge(1)
            if isinstance(item, str):
                characters += len(item)
                self.allow(characters)
            elif isinstance(item, dict):
                todo.extend(item)
                todo.extend(item.values())
            elif isinstance(item, _CONTAINERS):
                todo.extend(item)
            elif not isinstance(item, (*_SCALARS, range)):
                raise TypeError(f"a {type(item).__name__} cannot be written into a prompt")
