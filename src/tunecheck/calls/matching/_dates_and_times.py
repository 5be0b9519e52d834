"""Dates and times as people and models write them: compare whether two texts or numbers mean the same moment.

A text may have several readings (05/01/2024 is in January or in May), and every reading counts. Words that depend on
today (`tomorrow`) are not read.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias

_MOST_CHARACTERS = 64
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = re.compile(
    r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_SAYS_WHEN = re.compile(rf"\d|noon|midnight|{'|'.join(_MONTHS)}")
"""Matches every date and time. A text without a match needs no further check."""
_LETTERS_BESIDE_DIGITS = re.compile(r"(?<=\d)(?=[a-z])|(?<=[a-z])(?=\d)")
_NOISE = re.compile(
    r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\b\.?"
    r"|\b(?:the|of|at|on|t|st|nd|rd|th)\b|[,@]"
)
_COMPACT = re.compile(r"(\d{8})[t ]?(\d{2})(\d{2})(\d{2})?(z?)")
_TIME = re.compile(
    r"(?<![\d:.])(\d{1,2})(?:[:h](\d{2})(?::(\d{2})(?:[.,]\d{1,9})?)?|(?=\s*[ap]\.?m\b))(?:\s*([ap])\.?m\b\.?)?"
    r"\s*(?:(z\b|utc|gmt)|([+-])(\d{2}):?(\d{2})?(?![\d:]))?"
)
_ORDERS = {
    "Ynn": ("ymd",), "nnY": ("dmy", "mdy"), "nnn": ("dmy", "mdy", "ymd"), "Yn": ("ym",), "nY": ("my",),
    "nn": ("md", "dm"), "bnY": ("mdy",), "bnn": ("mdy",), "bn": ("md",), "nbY": ("dmy",), "nbn": ("dmy",),
    "nb": ("dm",), "Ybn": ("ymd",), "bY": ("my",), "Yb": ("ym",), "b": ("m",),
}  # fmt: skip
"""Orders in which a date may be read, by its parts: a year of four digits, another number, the name of a month."""

_When: TypeAlias = datetime | int | tuple[tuple[str, int] | int, ...]


class _Moment(NamedTuple):
    """One reading of a text: the time on its own clock, and in UTC if it names a time zone.

    `when` is a full date with its time, or the seconds of a day, or an incomplete date. `order` tells how digits were
    read, and `mark` what stands between them.
    """

    when: _When
    utc: _When | None
    order: str = ""
    mark: str = ""


def same_moment(expected: str | float, actual: str | float) -> bool:
    """Whether both are the same date, time, or both, written differently; a number is Unix time, or YYYYMMDD.

    At least one of the two must be a text. A date alone equals its midnight; where only one names a time zone, the
    clock times are compared. Two dates in digits that could each be read in two ways are read alike: 05/01/2024 and
    01/05/2024 are two days.
    """
    if not isinstance(expected, str) and not isinstance(actual, str):
        return False
    ones = list(_moments(expected))
    others = list(_moments(actual)) if ones else []
    ambiguous = all(len({one.when for one in each}) > 1 for each in (ones, others))
    alike = ambiguous and {one.mark for one in ones} == {other.mark for other in others}
    pairs = ((one, other) for one in ones for other in others if not alike or one.order == other.order)
    return any(
        one.when == other.when if one.utc is None or other.utc is None else one.utc == other.utc for one, other in pairs
    )


def _moments(value: str | float) -> Iterator[_Moment]:
    text = value if isinstance(value, str) else f"{value:.0f}" if abs(value) < 1e15 else ""
    text = text.strip().lower().replace("noon", "12:00").replace("midnight", "00:00")
    if not 1 < len(text) <= _MOST_CHARACTERS or not text.isascii() or not _SAYS_WHEN.search(text):
        return
    if text.isdecimal() and len(text) in (10, 13):
        moment = datetime.fromtimestamp(int(text[:10]), UTC).replace(tzinfo=None)
        yield _Moment(moment, moment)
    if compact := _COMPACT.fullmatch(text):
        text = f"{compact[1]} {compact[2]}:{compact[3]}:{compact[4] or '00'}{compact[5]}"
    time = _TIME.search(text)
    seconds = _seconds(time) if time else 0
    if seconds is None:
        return
    offset = _offset(time) if time else None
    rest = f"{text[: time.start()]} {text[time.end() :]}" if time else text
    rest = " ".join(_NOISE.sub(" ", _LETTERS_BESIDE_DIGITS.sub(" ", rest)).split()).strip("- ")
    if rest:
        yield from _dates(_MONTH.sub(lambda name: name[0][:3], rest), seconds, offset)
    elif time:
        utc = None if offset is None else (seconds - offset) % 86400
        yield _Moment(seconds % 86400, utc)


def _seconds(time: re.Match[str]) -> int | None:
    hour, minute, second = (int(part or 0) for part in time.groups()[:3])
    if time[4]:
        hour = hour % 12 + 12 * (time[4] == "p") if 1 <= hour <= 12 else 99
    total = hour * 3600 + minute * 60 + second
    return total if minute < 60 and second <= 60 and total <= 86400 else None


def _offset(time: re.Match[str]) -> int | None:
    """Return the time zone in seconds from UTC, or None."""
    if time[6]:
        return (-1 if time[6] == "-" else 1) * (int(time[7]) * 3600 + int(time[8] or 0) * 60)
    return 0 if time[5] else None


def _dates(text: str, seconds: int, offset: int | None) -> Iterator[_Moment]:
    if re.fullmatch(r"\d+[. ]\d+", text):  # a number
        return
    words = re.split(r"[-/. ]+", re.sub(r"^(\d{4})(\d{2})(\d{2})$", r"\1-\2-\3", text))
    shape = "".join(
        "b" if word in _MONTHS else {4: "Y", 1: "n", 2: "n"}.get(len(word) * word.isdecimal(), "?") for word in words
    )
    mark = text[len(words[0]) : len(words[0]) + 1]
    numbers = [_MONTHS.index(word) + 1 if word in _MONTHS else int(word) for word in words if shape in _ORDERS]
    for order in _ORDERS.get(shape, ()):
        parts = dict(zip(order, numbers, strict=True))
        year, month, day = (parts.get(part) for part in "ymd")
        if year is not None and year < 100 and "Y" not in shape:
            year += 2000 if year < 70 else 1900
        try:
            date = datetime(2000 if year is None else year, month or 0, 1 if day is None else day)  # noqa: DTZ001
            when = date + timedelta(seconds=seconds)
            utc = None if offset is None else when - timedelta(seconds=offset)
        except (ValueError, OverflowError):
            continue
        if year is None or day is None:
            yield _Moment((*sorted(parts.items()), seconds), None, order, mark)
        else:
            yield _Moment(when, utc, order, mark)
