"""Vectors as they come from an embeddings endpoint, and as they are kept: 32-bit numbers, in base64."""

from __future__ import annotations

import base64
import binascii
import math
import sys
from array import array
from collections.abc import Sequence

from tunecheck._json import JSON
from tunecheck.endpoints._answers import UnreadableReplyError

_MOST_NUMBERS = 1 << 16


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """The cosine of the angle between two vectors, from -1 to 1.

    Raises:
        ValueError: they differ in length, or one of them is zero.
    """
    product = math.fsum(a * b for a, b in zip(first, second, strict=True))
    lengths = math.hypot(*first) * math.hypot(*second)
    if not lengths:
        raise ValueError("an embedding of zeros has no direction")
    return max(-1.0, min(1.0, product / lengths))


def packed_vector(vector: array[float]) -> str:
    """A vector of 32-bit numbers as base64, little-endian: a quarter of its length in decimals."""
    return base64.b64encode(_little_endian(vector).tobytes()).decode("ascii")


def unpacked_vector(text: str) -> array[float]:
    """The vector again.

    Raises:
        UnreadableReplyError: it is none.
    """
    vector: array[float] = array("f")
    try:
        vector.frombytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        raise UnreadableReplyError("an embedding is text that is not base64 of 32-bit numbers") from None
    return _checked(_little_endian(vector))


def read_embeddings(reply: JSON, count: int) -> list[array[float]]:
    """The vectors in an embeddings reply, in the order of the texts that were sent.

    Raises:
        UnreadableReplyError: it is not such a reply, or has not one vector for each text.
    """
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, list):
        has = f" (it has: {', '.join(list(reply)[:8])})" if isinstance(reply, dict) and reply else ""
        raise UnreadableReplyError(f"the reply has no list `data` of embeddings{has}")
    if len(data) != count:
        raise UnreadableReplyError(f"the reply has {len(data)} embeddings for {count} texts")
    places = [item.get("index", place) if isinstance(item, dict) else None for place, item in enumerate(data)]
    found = {place: item.get("embedding") for place, item in zip(places, data, strict=True) if isinstance(item, dict)}
    if any(type(place) is not int for place in places) or set(found) != set(range(count)):
        raise UnreadableReplyError("the reply's embeddings are not numbered like the texts")
    return [_vector(found[place]) for place in range(count)]


def _vector(value: JSON) -> array[float]:
    if isinstance(value, str):
        return unpacked_vector(value)
    if not isinstance(value, list) or not all(type(number) in (int, float) for number in value):
        raise UnreadableReplyError("an embedding is not a list of numbers")
    try:
        return _checked(array("f", value))  # type: ignore[arg-type]  # numbers, as was just seen
    except OverflowError:
        raise UnreadableReplyError("an embedding holds a number out of range") from None


def _checked(vector: array[float]) -> array[float]:
    if not 0 < len(vector) <= _MOST_NUMBERS:
        raise UnreadableReplyError(f"an embedding has {len(vector)} numbers")
    if not all(map(math.isfinite, vector)):
        raise UnreadableReplyError("an embedding holds a number out of range")
    return vector


def _little_endian(vector: array[float]) -> array[float]:
    if sys.byteorder == "little":
        return vector
    turned = vector[:]
    turned.byteswap()
    return turned
