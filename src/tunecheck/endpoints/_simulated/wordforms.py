"""Other ways to write a number, a date or a time: what a fine-tuned model confuses most."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from random import Random

from tunecheck._json import JSON

_LARGEST = 10**15
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class _Style:
    """One way to write a date or a time: how it is recognised and how it is written."""

    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], datetime]
    write: Callable[[datetime], str]


def as_number_text(value: JSON) -> str | None:
    """A number as its text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > _LARGEST:
        return None
    return str(value)


def converted_number(value: JSON, *, is_rate: bool = False) -> int | float | None:
    """A number in another unit: percent for a fraction, or a fraction for percent, or thousands for units.

    0.05 becomes 5, 30 becomes 0.3, 250000 becomes 250; None for what is no number, for 0, and for whole numbers below
    ten, which count things, unless they are rates.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < abs(value) <= _LARGEST:
        return None
    exact = Decimal(repr(value))
    if abs(exact) < 1:
        changed = exact * 100
    elif abs(exact) >= 1000:
        changed = exact / 1000
    elif abs(exact) >= 10 or isinstance(value, float) or is_rate:
        changed = exact / 100
    else:
        return None
    return int(changed) if changed == changed.to_integral_value() else float(changed)


def other_date_or_time(text: JSON, rng: Random) -> str | None:
    """The same date or time in another format (2026-03-05 as March 5, 2026; 14:30 as 2:30 PM); None for other text."""
    if not isinstance(text, str):
        return None
    both = _BOTH.fullmatch(text)
    if both:
        day, clock = other_date_or_time(both["date"], rng), other_date_or_time(both["time"], rng)
        return f"{day} {clock}" if day and clock else None
    for family in (_DATES, _TIMES):
        moment, own = _read(text, family)
        if moment is not None:
            others = [style.write(moment) for style in family if style is not own]
            return rng.choice([other for other in others if other != text] or [None])
    return None


def shifted_date_or_time(text: str, rng: Random) -> str | None:
    """Another day or hour in the same format; None for text that is no date or time."""
    both = _BOTH.fullmatch(text)
    if both:
        day = shifted_date_or_time(both["date"], rng)
        return None if day is None else day + text[both.end("date") :]
    for family, step in ((_DATES, timedelta(days=1)), (_TIMES, timedelta(hours=1))):
        moment, own = _read(text, family)
        if moment is not None and own is not None:
            return own.write(moment + step * rng.choice((-1, 1)))
    return None


def _read(text: str, family: tuple[_Style, ...]) -> tuple[datetime | None, _Style | None]:
    for style in family:
        match = style.pattern.fullmatch(text)
        if match:
            try:
                return style.read(match), style
            except (ValueError, OverflowError):  # the 31st of February, hour 25, a month called Foo
                continue
    return None, None


def _read_date(match: re.Match[str]) -> datetime:
    month = match["month"]
    number = int(month) if month.isdigit() else _MONTHS.index(month) + 1
    year = int(match["year"])
    if not 1000 <= year <= 9990:
        raise ValueError("outside the years that a date is likely to have")
    return datetime.combine(date(year, number, int(match["day"])), time())


def _read_time(match: re.Match[str]) -> datetime:
    groups = match.groupdict()
    hour, half = int(groups["hour"]), (groups.get("half") or "").lower()
    if half:
        hour = time(hour).hour % 12 + (12 if half == "pm" else 0)
    return datetime.combine(date(2000, 1, 2), time(hour, int(groups["minute"]), int(groups.get("second") or 0)))


def _date(pattern: str, write: Callable[[datetime], str]) -> _Style:
    return _Style(re.compile(pattern, re.ASCII), _read_date, write)


def _time(pattern: str, write: Callable[[datetime], str]) -> _Style:
    return _Style(re.compile(pattern, re.ASCII), _read_time, write)


_DATES = (
    _date(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)", lambda at: f"{at.year}-{at.month:02}-{at.day:02}"),
    _date(r"(?P<month>\d\d?)/(?P<day>\d\d?)/(?P<year>\d{4})", lambda at: f"{at.month:02}/{at.day:02}/{at.year}"),
    _date(r"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4})", lambda at: f"{at.day:02}.{at.month:02}.{at.year}"),
    _date(
        r"(?P<month>[A-Z][a-z]+) (?P<day>\d\d?), (?P<year>\d{4})",
        lambda at: f"{_MONTHS[at.month - 1]} {at.day}, {at.year}",
    ),
    _date(
        r"(?P<day>\d\d?) (?P<month>[A-Z][a-z]+) (?P<year>\d{4})",
        lambda at: f"{at.day} {_MONTHS[at.month - 1]} {at.year}",
    ),
)
_TIMES = (
    _time(r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?", lambda at: f"{at.hour:02}:{at.minute:02}"),
    _time(
        r"(?P<hour>\d\d?):(?P<minute>\d\d) ?(?P<half>[AaPp][Mm])",
        lambda at: f"{(at.hour - 1) % 12 + 1}:{at.minute:02} {'AM' if at.hour < 12 else 'PM'}",
    ),
)
_BOTH = re.compile(r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d(?::\d\d)?)Z?", re.ASCII)
