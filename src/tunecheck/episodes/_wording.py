"""What a conversation says that is neither the user's nor the model's: system prompt, and news about functions.

BFCL's own texts are read from the user's copy of it, when they are needed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tunecheck._json import JSON, content_hash, dumps
from tunecheck._targets import Row
from tunecheck.formats._prompts import ToolPrompt
from tunecheck.simulators._long_context import LongContext
from tunecheck_bfcl._data.categories import CATEGORIES
from tunecheck_bfcl._data.files import find_bfcl
from tunecheck_bfcl._data.prompts import ADDED_FUNCTIONS, ADDED_FUNCTIONS_TEXT, prompt, read_prompts, system_prompt


class Wording(ABC):
    @abstractmethod
    def system(self, functions: Sequence[JSON]) -> str:
        """What tells a prompting model which functions there are and how to call them."""

    @abstractmethod
    def added(self, functions: Sequence[JSON] | None) -> str:
        """What says, in the user's place, that there are more functions now.

        `functions` are their documents for a prompting model, None for one that gets them as tools.
        """

    @abstractmethod
    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        """What a prompting model's calls came to: each call's text and its result's."""

    def fingerprint(self) -> str:
        """A hash of what answers depend on."""
        texts = [self.system([]), self.added([]), self.added(None), self.results(["f()"], ["1"])]
        return content_hash([type(self).__qualname__, *texts])


class OwnWording(Wording):
    def system(self, functions: Sequence[JSON]) -> str:
        listed = "\n".join(dumps(function).decode() for function in functions)
        return (
            "You act for the user by calling functions. To call, answer with nothing but a list of calls in Python's "
            "syntax, every argument named:\n"
            "[first_function(text='a', number=1), second_function(flag=True)]\n"
            "You are then told what the calls came to, and may call again. When the user's request is done, or cannot "
            "be done with these functions or without something that the user has not said, answer in plain words "
            f"instead.\n\nThe functions, each with its parameters as JSON Schema:\n{listed}"
        )

    def added(self, functions: Sequence[JSON] | None) -> str:
        sentence = "From now on there are more functions that you can call. Please go on with them."
        if functions is None:
            return sentence
        listed = "\n".join(dumps(function).decode() for function in functions)
        return f"{sentence}\n{listed}"

    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        return dumps([{"call": call, "result": result} for call, result in zip(calls, results, strict=True)]).decode()


class FamilyWording(OwnWording):
    """As a model family is used to it."""

    def __init__(self, prompt: ToolPrompt) -> None:
        self._prompt = prompt

    def system(self, functions: Sequence[JSON]) -> str:
        return self._prompt.system(functions)

    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        return self._prompt.results(results)


class BfclWording(Wording):
    """BFCL's own, from the prompts of the user's copy (`read_prompts`)."""

    def __init__(self, prompts: Mapping[str, str]) -> None:
        self._prompts = prompts

    def system(self, functions: Sequence[JSON]) -> str:
        return system_prompt(self._prompts, functions)

    def added(self, functions: Sequence[JSON] | None) -> str:
        """BFCL's sentence; before it, for a prompting model, the functions as Python writes them."""
        if functions is None:
            return prompt(self._prompts, ADDED_FUNCTIONS)
        return prompt(self._prompts, ADDED_FUNCTIONS_TEXT).replace("{functions}", repr(list(functions)))

    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        said = zip(calls, results, strict=True)
        return repr([{"role": "tool", "name": call, "content": result} for call, result in said])


def is_bfcl(row: Row) -> bool:
    """Whether a row is one of BFCL's, as `bfcl:…` gives them."""
    category = row.values.get("category")
    known = CATEGORIES.get(category) if isinstance(category, str) else None
    return known is not None and row.values.get("check") == known.check


class BfclCopy:
    """What conversations need of a copy of BFCL, looked for as `find_bfcl` does.

    Reading either raises DataError where there is no copy; the text says how to get one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @cached_property
    def wording(self) -> BfclWording:
        return BfclWording(read_prompts(self._folder))

    @cached_property
    def long_context(self) -> LongContext:
        return LongContext.read(find_bfcl(self._folder).package)
