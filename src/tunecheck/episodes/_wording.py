"""Texts that neither the user nor the model says: the system prompt, and announcements of functions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tunecheck._json import JSON, content_hash, dumps
from tunecheck.formats._prompts import ToolPrompt


class Wording(ABC):
    @abstractmethod
    def system(self, functions: Sequence[JSON]) -> str:
        """Return the system prompt: which functions there are and how to call them."""

    @abstractmethod
    def added(self, functions: Sequence[JSON] | None) -> str:
        """Return the user's message that announces more functions.

        `functions` are their documents for a prompting model, None for one that gets them as tools.
        """

    @abstractmethod
    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        """Return the message with the results of a prompting model's calls."""

    def fingerprint(self) -> str:
        """Return a hash of the texts that answers depend on."""
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
    """The wording that a model family was trained with."""

    def __init__(self, prompt: ToolPrompt) -> None:
        self._prompt = prompt

    def system(self, functions: Sequence[JSON]) -> str:
        return self._prompt.system(functions)

    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        return self._prompt.results(results)
