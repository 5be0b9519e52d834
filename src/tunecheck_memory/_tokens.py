"""Count tokens, the unit of waits, filler and memory spans."""

import importlib
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import machinery, util
from types import ModuleType
from typing import Any, Protocol

from tunecheck import MissingExtraError
from tunecheck.plugins import one_of

ENCODINGS = ("cl100k_base", "o200k_base")
"""The encodings that the extra `memory` provides offline; published runs were counted with the first."""

MESSAGE_TOKENS = 4
"""Tokens of a message in addition to its text: its role and delimiters in the usual chat formats."""

_PACKAGE = "bpe_openai"
_CORE = f"{_PACKAGE}._bindings"


class Tokenizer(Protocol):
    """A counter of tokens. Its `name`, such as "cl100k_base", is recorded with the run."""

    @property
    def name(self) -> str:
        """The name that is recorded with the run."""

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""


def load_tokenizer(name: str = "cl100k_base") -> Tokenizer:
    """Return the tokenizer of the encoding with this name.

    Raises:
        ConfigurationError: The name is unknown.
        MissingExtraError: `bpe-openai` is not installed, or its version does not fit.
    """
    one_of(name, ENCODINGS, "tokenizer")
    try:
        core: Any = sys.modules.get(_CORE) or _load_core()
        return _Encoding(name, core.tokenizer_for_encoding(name).count)
    except (ImportError, AttributeError):
        raise MissingExtraError("counting tokens", "memory") from None


def _load_core() -> ModuleType:
    """Load only the part of bpe-openai that counts tokens, without running the package's `__init__`.

    The `__init__` takes half a second to build tables of every encoding for Python. A later import of the package
    reuses the loaded part.

    Raises:
        ImportError: bpe-openai is not installed.
    """
    package = util.find_spec(_PACKAGE)
    spec = machinery.PathFinder.find_spec(_CORE, package.submodule_search_locations) if package is not None else None

    # Import the part in the usual way if the whole package is loaded already, or if the part cannot be found alone.
    if spec is None or spec.loader is None or _PACKAGE in sys.modules:
        return importlib.import_module(_CORE)

    # The module's name is that of the package's part, so a later import of the package finds it.
    core = util.module_from_spec(spec)
    spec.loader.exec_module(core)
    return sys.modules.setdefault(_CORE, core)


# A line break before a letter. The encodings never join the two in one token.
_LINE_BREAK = re.compile(r"\n(?=[A-Za-z])")


class _Encoding:
    """An encoding that counts special tokens in a text as plain text.

    It caches its last counts, because scheduler, agent and session state count the same message, and the results are
    made from the log after the run. 8,192 texts of 1,200 characters take about 10 MB. Lines are counted and cached
    alone, because filler repeats its lines: that takes a tenth of the time.
    """

    def __init__(self, name: str, count: Callable[[str], int]) -> None:
        self.name = name
        self._count_line = lru_cache(maxsize=8_192)(count)
        self._count = lru_cache(maxsize=8_192)(self._count_lines)

    def count(self, text: str) -> int:
        """Return the number of tokens; a lone surrogate counts as its replacement character."""
        try:
            return self._count(text)
        except UnicodeEncodeError:  # a lone surrogate
            return self._count(replace_lone_surrogates(text))

    def _count_lines(self, text: str) -> int:
        """Return the number of tokens of a text, as the sum over its lines.

        Raises:
            UnicodeEncodeError: the text has a lone surrogate.
        """
        *lines, last = _LINE_BREAK.split(text)
        return sum(self._count_line(f"{line}\n") for line in lines) + self._count_line(last)


def replace_lone_surrogates(text: str) -> str:
    r"""Replace lone surrogates, which JSON may contain (`"\ud83d"`), because tokenizers cannot read them."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
