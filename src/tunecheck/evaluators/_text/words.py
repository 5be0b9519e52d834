"""A text's tokens, worked out once however many metrics ask for them."""

from __future__ import annotations

from tunecheck.evaluators._text.memory import TextMemory
from tunecheck.evaluators._text.nist import nist_tokens
from tunecheck.evaluators._text.treebank import treebank_tokens

_ENTRY_LENGTH = 64
"""What remembering a text costs beside its characters, in characters."""

_known: TextMemory[str, tuple[str, ...]] = TextMemory(2_000_000)


def tokens_of(text: str) -> tuple[str, ...]:
    """The tokens that Azure AI Evaluation scores: Treebank's for ASCII, NIST's for every other text."""
    return _known.get(text, len(text) + _ENTRY_LENGTH, _tokenize)


def _tokenize(text: str) -> tuple[str, ...]:
    return tuple(treebank_tokens(text) if text.isascii() else nist_tokens(text))
