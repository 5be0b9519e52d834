"""The words after an unknown name: which known one was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean"]

_MOST_LISTED = 12


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'bleu'?"`, else `"; known: a, b"`: to be appended to an error's text."""
    import difflib

    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    if not names:
        return ""
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"; known: {', '.join(names[:_MOST_LISTED])}{more}"
