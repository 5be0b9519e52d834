"""Dates and times as people and models write them: whether two texts or numbers mean the same moment.

A text may mean several (05/01/2024 is in January or in May): every reading counts. What depends on today (`tomorrow`)
is not read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

_MOST_DATE_CHARACTERS = 64
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sep sept", "october oct", "november nov", "december dec",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "(?P<name>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\.?"
_NOISE = re.compile(
    r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\b\.?|\bthe\b|\bof\b|,|(?<=\d)(?:st|nd|rd|th)\b"
)
_TIME = re.compile(
    r"(?<![\d:.])(?:"
    r"(?P<hour>\d{1,2})(?:(?::|h)(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d{1,9})?)?|(?=\s*[ap]\.?m\b))"
    r"(?:\s*(?P<half>[ap])\.?m\b\.?)?"
    r"|(?P<word>noon|midnight))"
    r"\s*(?P<zone>z\b|utc|gmt|[+-]\d{2}:?\d{2}(?!\d)|[+-]\d{2}(?![\d:]))?"
)
_SAYS_WHEN = re.compile(r"\d|noon|midnight|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec")
"""What every date and every time has: most texts are neither."""
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})[t ]?(\d{2})(\d{2})(\d{2})?(z?)")
_SEPARATORS = re.compile(r"\s+(?:at|on|@)\s*$|^\s*(?:at|on|@)\s+|(?<=\d)t\s*$|[\s,@-]+$|^[\s,@-]+")

_DATE_FORMS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), orders)
    for pattern, orders in (
        (r"(\d{4})[-/. ](\d{1,2})[-/. ](\d{1,2})", ("ymd",)),
        (r"(\d{4})(\d{2})(\d{2})", ("ymd",)),
        (r"(\d{1,2})[-/. ](\d{1,2})[-/. ](\d{4})", ("dmy", "mdy")),
        (r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{2})", ("dmy", "mdy", "ymd")),
        (r"(\d{4})[-/](\d{1,2})", ("ym",)),
        (r"(\d{1,2})[-/](\d{4})", ("my",)),
        (r"(\d{1,2})[-/](\d{1,2})", ("md", "dm")),
    )
)
_NAMED_FORMS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), orders)
    for pattern, orders in (
        (rf"{_MONTH}[-/ ]?(\d{{1,2}})(?:[-/ ]+(\d{{4}}|\d{{2}}))?", ("dy",)),
        (rf"(\d{{1,2}})[-/ ]?{_MONTH}(?:[-/ ]?(\d{{4}}|\d{{2}}))?", ("dy",)),
        (rf"(\d{{4}})[-/ ]{_MONTH}[-/ ](\d{{1,2}})", ("yd",)),
        (rf"{_MONTH}[-/ ](\d{{4}})", ("y",)),
        (rf"(\d{{4}})[-/ ]{_MONTH}", ("y",)),
        (_MONTH, ("",)),
    )
)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What a text says, and None for what it leaves open; `seconds` of the day, `offset` from UTC in minutes.

    `order` is how its digits were read, and what stands between them.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None
    seconds: int | None = None
    offset: int | None = None
    order: str = field(default="", compare=False)

    @property
    def has_date(self) -> bool:
        return self.month is not None


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
    alike = (
        _is_ambiguous(ones)
        and _is_ambiguous(others)
        and {one.order[-1:] for one in ones} == {other.order[-1:] for other in others}
    )
    return any(_same(one, other) and not (alike and one.order != other.order) for one in ones for other in others)


def _is_ambiguous(readings: list[_Moment]) -> bool:
    return len({(one.month, one.day) for one in readings}) > 1


def _moments(value: str | float) -> Iterator[_Moment]:
    text = value if isinstance(value, str) else f"{value:.0f}" if abs(value) < 1e15 else ""
    if not 1 < len(text) <= _MOST_DATE_CHARACTERS or not text.isascii():
        return
    text = text.strip().lower()
    if not _SAYS_WHEN.search(text):
        return
    if text.isdecimal() and len(text) in (10, 13):
        yield _from_unix(int(text) // (1 if len(text) == 10 else 1000))
    compact = _COMPACT.fullmatch(text)
    if compact:
        year, month, day, hour, minute, second = (int(part or 0) for part in compact.groups()[:6])
        if hour < 24 and minute < 60 and second < 61:
            clock = _Moment(seconds=hour * 3600 + minute * 60 + second, offset=0 if compact[7] else None)
            yield from _with_date(clock, year, month, day)
    yield from _from_words(text)


def _from_unix(seconds: int) -> _Moment:
    moment = datetime.fromtimestamp(seconds, UTC)
    return _Moment(
        moment.year, moment.month, moment.day, moment.hour * 3600 + moment.minute * 60 + moment.second, offset=0
    )


def _from_words(text: str) -> Iterator[_Moment]:
    time = _TIME.search(text)
    clock = _clock(time) if time else _Moment()
    if clock is None:
        return
    rest = text if time is None else _joined(text[: time.start()], text[time.end() :])
    if rest is None:
        return
    if rest:
        yield from _dates(rest, clock)
    elif time:
        yield replace(clock, seconds=(clock.seconds or 0) % 86400)


def _joined(before: str, after: str) -> str | None:
    """What stands beside the time: a date before it or after it, but not both."""
    before, after = _bare(before), _bare(after)
    return None if before and after else before or after


def _bare(text: str) -> str:
    while (shorter := _SEPARATORS.sub("", text)) != text:
        text = shorter
    return text


def _clock(time: re.Match[str]) -> _Moment | None:
    if time["word"]:
        hour, minute, second = (12 if time["word"] == "noon" else 0), 0, 0
    else:
        hour, minute, second = (int(time[part] or 0) for part in ("hour", "minute", "second"))
    if (
        hour > 24
        or minute > 59
        or second > 60
        or (hour == 24 and minute + second)
        or (time["half"] and not 1 <= hour <= 12)
    ):
        return None
    if time["half"]:
        hour = hour % 12 + (12 if time["half"] == "p" else 0)
    return _Moment(seconds=hour * 3600 + minute * 60 + second, offset=_offset(time["zone"]))


def _offset(zone: str | None) -> int | None:
    if zone is None:
        return None
    if zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (-1 if zone[0] == "-" else 1) * (int(digits[:2]) * 60 + int(digits[2:]))


def _dates(text: str, clock: _Moment) -> Iterator[_Moment]:
    text = " ".join(_NOISE.sub(" ", text).split())
    for form, orders in _DATE_FORMS:
        if not (match := form.fullmatch(text)):
            continue
        for order in orders:
            parts = dict(zip(order, match.groups(), strict=True))
            read = replace(clock, order=order + text[match.end(1)])
            yield from _with_parts(read, parts.get("y"), parts.get("m"), parts.get("d"))
    for form, orders in _NAMED_FORMS:
        if not (match := form.fullmatch(text)):
            continue
        numbers = [part for part in match.groups() if part != match["name"]]
        for order in orders:
            parts = dict(zip(order, numbers, strict=True))
            yield from _with_parts(clock, parts.get("y"), str(_MONTHS[match["name"]]), parts.get("d"))


def _with_parts(clock: _Moment, year: str | None, month: str | None, day: str | None) -> Iterator[_Moment]:
    years = [None] if year is None else [int(year)] if len(year) > 2 else [1900 + int(year), 2000 + int(year)]
    for number in years:
        yield from _with_date(clock, number, int(month or 0), None if day is None else int(day))


def _with_date(clock: _Moment, year: int | None, month: int, day: int | None) -> Iterator[_Moment]:
    try:
        known = date(2000 if year is None else year, month, 1 if day is None else day)
        if clock.seconds == 86400 and year is not None and day is not None:  # 24:00 is the next day's beginning
            known += timedelta(days=1)
            clock, year, month, day = replace(clock, seconds=0), known.year, known.month, known.day
    except (ValueError, OverflowError):
        return
    yield replace(clock, year=year, month=month, day=day)


def _same(one: _Moment, other: _Moment) -> bool:
    if one.has_date != other.has_date:
        return False
    if one.has_date:  # a date alone is its midnight
        one, other = replace(one, seconds=one.seconds or 0), replace(other, seconds=other.seconds or 0)
    if replace(one, offset=None) == replace(other, offset=None):
        return one.offset == other.offset or None in (one.offset, other.offset)
    if one.offset is None or other.offset is None or one.offset == other.offset:
        return False
    return _utc(one) == _utc(other)


def _utc(moment: _Moment) -> tuple[int, ...] | int:
    shift = (moment.seconds or 0) - 60 * (moment.offset or 0)
    if moment.year is None or moment.month is None or moment.day is None:
        return shift % 86400
    day = date(moment.year, moment.month, moment.day).toordinal() + shift // 86400
    return (day, shift % 86400)
