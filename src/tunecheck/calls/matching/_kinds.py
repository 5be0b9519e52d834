"""Classify wrong values into a few kinds by rules, without a model.

Two values that are known to differ are tested in this order. The first kind that fits is the result:

| kind                  | expected, actual                                                                  |
|-----------------------|-----------------------------------------------------------------------------------|
| `number_as_text`      | 5 and "5", "05", "5.0" or "five" (only a number and a text)                       |
| `case_or_spacing`     | "New-York" and "new york" (only two texts)                                        |
| `date_or_time_format` | "2024-05-01" and "May 1st, 2024"; "3pm" and "15:00"; Unix time                    |
| `number_conversion`   | "5 km" and 5000; 0.25 and 25; "10k" and 10000; "20 °C" and 68                     |
| `close_wording`       | "Paris" and "Paris, France" (only two texts)                                      |
| `other`               | "user_1" and "user_2"; true and 1; all objects and lists                          |

Numbers and dates are read leniently, as people and models write them. This only classifies a wrong argument; it never
decides whether an argument is wrong. If a text has several readings (`1,000` is a thousand or one), each is tried.
"""

import math
import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise, product
from typing import NamedTuple, TypeAlias

import msgspec

from tunecheck._json import JSON

KINDS = (
    "number_as_text",
    "number_conversion",
    "date_or_time_format",
    "case_or_spacing",
    "list_order",
    "close_wording",
    "other",
)
"""Kinds in their order in reports. `list_order` is found by the comparison of lists."""

CLOSE_WORDING = 80.0
"""The minimum similarity of close texts: rapidfuzz's ratio, 100 × (1 − insertions and deletions / both lengths), of the
words in order or sorted."""

_COMPARED_CHARACTERS = 2_000  # the time for a similarity is the product of both lengths
_GLANCED_CHARACTERS = 256  # less, because every pair of calls is compared
# a hyphen or underscore between two letters, as in `new-york`; not in `user_1`
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])[-_](?=[^\W\d_])")
# typographic quotes and dashes, with their ASCII characters
_TYPOGRAPHIC = str.maketrans("‘’‚‛′´`“”„‟″«»‐‑‒–—−", "'" * 7 + '"' * 7 + "-" * 6)
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"\w+")


def kind_of_wrong(expected: JSON, actual: JSON) -> str:
    """Return the kind of a wrong value, one of `KINDS`, for two values that are known to differ.

    Objects and lists are "other" here: their parts and order are compared elsewhere.
    """
    if isinstance(expected, bool) or isinstance(actual, bool):
        return "other"
    if not isinstance(expected, (int, float, str)) or not isinstance(actual, (int, float, str)):
        return "other"

    if isinstance(expected, str) and isinstance(actual, str) and plain_words(expected) == plain_words(actual):
        return "case_or_spacing"
    # Either value may be the text.
    for number, text in ((expected, actual), (actual, expected)):
        if isinstance(text, str) and not isinstance(number, str) and _is_number_in_text(number, text):
            return "number_as_text"

    if same_moment(expected, actual):
        return "date_or_time_format"
    if _is_rounding(expected, actual) or same_quantity(expected, actual):
        return "number_conversion"
    return "close_wording" if _is_close_wording(expected, actual) else "other"


def closeness(expected: str, actual: str) -> float:
    """Return the similarity of two texts from 0 to 1, without case and white space, by their first 256 characters."""
    from rapidfuzz import fuzz  # imported on use: it takes 15 ms

    one, other = ("".join(text[:_GLANCED_CHARACTERS].casefold().split()) for text in (expected, actual))
    return fuzz.ratio(one, other) / 100


def plain_words(text: str) -> str:
    """Return the text without case, white space, hyphens and underscores between letters, and with plain quotes."""
    folded = unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHIC)).casefold()
    return "".join(_BETWEEN_LETTERS.sub("", folded).split())


def _is_rounding(expected: float | str, actual: float | str) -> bool:
    """Return whether one value is a whole number and the other the float nearest to it."""
    whole, nearest = (expected, actual) if isinstance(expected, int) else (actual, expected)
    if not isinstance(whole, int) or not isinstance(nearest, float):
        return False
    return abs(whole) < _LARGEST and float(whole) == nearest


def _is_close_wording(expected: float | str, actual: float | str) -> bool:
    """Return whether two texts are similar, or one has all words of the other (`Paris` and `Paris, France`).

    Texts with different numbers (`user_1`, `user_2`) never are.
    """
    from rapidfuzz import fuzz

    if not isinstance(expected, str) or not isinstance(actual, str):
        return False

    one, other = (" ".join(text[:_COMPARED_CHARACTERS].casefold().split()) for text in (expected, actual))

    if _DIGITS.findall(one) != _DIGITS.findall(other):
        return False
    if fuzz.ratio(one, other) >= CLOSE_WORDING or fuzz.token_sort_ratio(one, other) >= CLOSE_WORDING:
        return True

    words, other_words = set(_WORD.findall(one)), set(_WORD.findall(other))
    common = words & other_words
    contains_the_other = common in (words, other_words)
    return contains_the_other and any(len(word) > 2 for word in common)  # `a`, `of` and `in` are in many texts


_MOST_NUMBER_CHARACTERS = 48  # of a text that can be a number with its unit
_LARGEST = 10**300  # near the largest float
# `-5`, `1.5e3`; not `05` or `.5`
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
# a plus sign or leading zeros: `+5`, `-005` (the minus stays)
_LEADING = re.compile(r"^(?:\+|(-)?0+(?=\d))")
# a number with sign, separators, exponent and currency, and one unit, such as `$1,200.50` or `5 km`
_QUANTITY = re.compile(
    r"(?P<sign>[-+−]?)\s*[$€£¥₹]?\s*(?P<digits>(?:\d[\d.,'’_\u00a0\u202f ]*)?\d|\.\d+)(?:[eE](?P<power>[+-]?\d{1,2}))?"
    r"\s*[$€£¥₹]?\s*(?P<unit>[^\W\d_]+\.?|%|°\s?[cCfF]?|°)?"
)
# digits with thousands separators of one kind, such as `1,000,000.5`; groups of two are Indian, as in `12,34,567`
_GROUPED = re.compile(r"\d{1,3}(?P<mark>[,.'’_\u00a0\u202f ])(?:\d{2,3}(?P=mark))*\d{3}(?:[.,]\d+)?")
_SPACES = re.compile(r"[\s\u00a0\u202f]+")

# words and letters after a number that multiply it
_SCALES = {
    "k": 10**3, "thousand": 10**3, "m": 10**6, "mn": 10**6, "mio": 10**6, "million": 10**6, "millions": 10**6,
    "b": 10**9, "bn": 10**9, "billion": 10**9, "billions": 10**9, "t": 10**12, "trillion": 10**12, "hundred": 100,
}  # fmt: skip
_CLOCK = ("am", "pm")  # a time of day, not a unit
# by unit: factors for the bare numbers that a number with this unit can mean, such as 1 and 0.01 for a percentage;
# amounts of money are compared as bare numbers
_BARE_FACTORS: dict[str, tuple[Fraction, ...]] = {
    **dict.fromkeys(("", "usd", "eur", "gbp", "dollar", "dollars", "euro", "euros", "pound", "pounds"), (Fraction(1),)),
    **dict.fromkeys(("%", "percent", "pct"), (Fraction(1), Fraction(1, 100))),
    **{word: (Fraction(scale),) for word, scale in _SCALES.items()},
}

# Factors to metres, grams, seconds, litres and bytes, exact by definition (SI brochure; international yard and pound,
# 1959; US gallon).
_SPELLINGS = {
    "length": {
        "m metre meter": "1", "km kilometre kilometer": "1000", "cm centimetre centimeter": "0.01",
        "mm millimetre millimeter": "0.001", "mi mile": "1609.344", "yd yard": "0.9144", "ft foot feet": "0.3048",
        "in inch inche": "0.0254",
    },
    "mass": {
        "g gram": "1", "kg kilo kilogram": "1000", "mg milligram": "0.001", "t tonne ton": "1000000",
        "lb pound": "453.59237", "oz ounce": "28.349523125",
    },
    "time": {
        "s sec second": "1", "ms millisecond": "0.001", "min minute": "60", "h hr hour": "3600", "d day": "86400",
        "week wk": "604800",
    },
    "volume": {"l litre liter": "1", "ml millilitre milliliter": "0.001", "gal gallon": "3.785411784"},
    "data": {
        "byte": "1", "kb": "1e3", "mb": "1e6", "gb": "1e9", "tb": "1e12",
        "kib": "1024", "mib": "1048576", "gib": "1073741824", "tib": "1099511627776",
    },
}  # fmt: skip
# by dimension and name: {"length": {"km": Fraction(1000), …}, …}
_UNITS = {
    dimension: {name: Fraction(factor) for names, factor in units.items() for name in names.split()}
    for dimension, units in _SPELLINGS.items()
}
# by the name of the unit: Celsius, Fahrenheit, or degrees of an unnamed scale
_TEMPERATURES = {
    "c": "c", "celsius": "c", "°c": "c", "f": "f", "fahrenheit": "f", "°f": "f", "°": "", "degrees": "", "degree": "",
}  # fmt: skip

_EXACT_FACTORS = tuple(map(Fraction, (100, 10**3, 10**6, 10**9, 60, 3600, 24, 1440, 86400)))
"""Exact factors between bare numbers: percent, thousands, and units of time."""
_ROUNDED = Fraction(5, 1000)  # relative: people round converted quantities
_FLOAT = Fraction(1, 10**9)  # relative: what float arithmetic changes

# number words: `two hundred and five` is 2 · 100 + 5
_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_TEENS_AND_TENS = "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = (*range(20), *range(20, 100, 10))
_WORDS = dict(zip(f"{_ONES} {_TEENS_AND_TENS}".split(), _VALUES, strict=True))
_MULTIPLIERS = {"dozen": 12, "hundred": 100}
_GROUPS = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}


class _Quantity(msgspec.Struct, frozen=True):
    """A number with its unit; the unit is "" for a bare number."""

    value: Fraction
    unit: str = ""


def number_of_text(text: str) -> int | float | None:
    """Return the number in this JSON text, or None if it contains anything else; white space around it is ignored.

    None also for a text of more than 400 characters, because a hostile number takes time to read.
    """
    if len(text) > 400:
        return None

    match = _JSON_NUMBER.fullmatch(text.strip())
    if match is None:
        return None

    number = float(match[0]) if match[1] or match[2] else int(match[0])
    return number if isinstance(number, int) or math.isfinite(number) else None


def _is_number_in_text(number: float, text: str) -> bool:
    """Return whether the text is that number in digits or words; for 5: `"5"`, `"05"`, `"5.0"`, `"five"`."""
    written = number_of_text(_LEADING.sub(r"\1", text.strip()))
    # A text that is no number in digits may be a number in words, with nothing after it.
    return number == written if written is not None else _spelled_number(text) == (number, "")


def _spelled_number(text: str) -> tuple[int, str] | None:
    """Return the number in words at the start of a text, and the text after it.

    For `two hundred and five km`, these are 205 and "km". Return None if the text begins otherwise or is too long.
    """
    if len(text) > _MOST_NUMBER_CHARACTERS:
        return None

    words = text.casefold().replace("-", " ").split()
    total = group = count = 0  # the finished thousands, the group in progress, and the number of words read

    for word, following in pairwise([*words, ""]):
        # `hundred` multiplies the group: two · 100. `thousand` ends it: the group · 1,000 is added to the total.
        value = _WORDS.get(word)
        takes_any_number = group % 100 == 0  # nothing yet, or `two hundred`
        takes_ones = group % 10 == 0 and group % 100 >= 20  # `twenty`

        if value is not None and (takes_any_number or (takes_ones and value < 10)):
            group += value
        elif word in _MULTIPLIERS:
            group = (group or 1) * _MULTIPLIERS[word]
        elif word in _GROUPS:
            total, group = total + (group or 1) * _GROUPS[word], 0
        else:
            # `and` counts between number words, and `a` in `a thousand`.
            is_and = word == "and" and count > 0 and following in _WORDS
            is_article = word == "a" and following in _MULTIPLIERS | _GROUPS
            if not is_and and not is_article:
                break

        count += 1
    return (total + group, " ".join(words[count:])) if count else None


def same_quantity(expected: float | str, actual: float | str) -> bool:
    """Return whether one value is a conversion of the other: other unit, percent (×100), thousands, `10k`, `1,000`.

    Two bare numbers count as converted if their ratio is one of percent, thousands, or units of time.
    """
    actual_quantities = [*_quantities(actual)]
    return any(_is_conversion(one, other) for one in _quantities(expected) for other in actual_quantities)


def _quantities(value: float | str) -> Iterator[_Quantity]:
    """Yield a number, or the possible readings of a text as a number with a unit: `5 km`, `10k`, `five kilometres`.

    Yield nothing for any other text, and for a number near the largest float.
    """
    if not isinstance(value, str):
        if abs(value) < _LARGEST:
            yield _Quantity(Fraction(value))
        return

    # `five km` is read as `5 km`.
    spelled = _spelled_number(value)
    text = f"{spelled[0]} {spelled[1]}" if spelled else value
    match = _QUANTITY.fullmatch(text.strip()) if len(value) <= _MOST_NUMBER_CHARACTERS else None
    if match is None:
        return

    unit = (match["unit"] or "").lower().rstrip(".").replace(" ", "")
    if unit in _CLOCK:
        return

    # The minus sign may be the typographic one.
    sign = -1 if match["sign"] in ("-", "−") else 1
    power = Fraction(10) ** int(match["power"] or 0)
    for number in _read_digits(match["digits"]):
        yield from _meanings(sign * number * power, unit)


def _read_digits(digits: str) -> Iterator[Fraction]:
    """Yield the numbers that digits with marks can mean: `1,000` is 1 (decimal) or 1000 (thousands separator)."""
    # as a decimal number: `1,000` is 1.000
    plain = digits.replace(",", ".")
    if re.fullmatch(r"\d*\.?\d+", plain, re.ASCII):
        yield Fraction(plain)

    # with thousands separators: `1,000` is 1000
    grouped = _GROUPED.fullmatch(digits)
    if grouped:
        separator = grouped["mark"].strip() or " "
        ungrouped = _SPACES.sub("", digits).replace(separator, "")
        whole, _, rest = ungrouped.replace(",", ".").partition(".")
        yield Fraction(f"{whole}.{rest or 0}")


def _meanings(value: Fraction, unit: str) -> Iterator[_Quantity]:
    """Yield the quantities that a number with this unit can mean.

    `5%` is 5 or 0.05. `5 m` is five million or five metres.
    """
    yield from (_Quantity(value * factor) for factor in _BARE_FACTORS.get(unit, ()))
    # `k` is only a multiplier, but `m` may also be metres.
    if unit not in _BARE_FACTORS or _dimension(unit):
        yield _Quantity(value, unit)


def _dimension(unit: str) -> str:
    """Return a unit's dimension, such as "length" for km, or an empty text for an unknown unit."""
    names = {unit, unit.removesuffix("s")}
    return next((dimension for dimension, units in _UNITS.items() if not names.isdisjoint(units)), "")


def _is_conversion(one: _Quantity, other: _Quantity) -> bool:
    """Return whether two quantities are equal after a conversion. A number without a unit may have any unit.

    Units are compared within half a percent, Celsius with Fahrenheit within half a degree.
    """
    if one.unit == other.unit:
        return _is_equal(one.value, other.value) if one.unit else _is_bare_conversion(one.value, other.value)

    units = [quantity.unit for quantity in (one, other) if quantity.unit]
    has_bare_number = len(units) == 1
    if has_bare_number and _is_equal(one.value, other.value):
        return True

    # The bare number may have any unit of the same dimension, so `5 km` equals 5000 (metres) and 3.1 (miles).
    dimensions = {_dimension(unit) for unit in units}
    if len(dimensions) == 1 and (factors := _UNITS.get(dimensions.pop())):
        values = (_in_base_units(one, factors), _in_base_units(other, factors))
        return any(_is_close(value, other_value) for value, other_value in product(*values))

    # None: not a temperature. Degrees of an unnamed scale have the scale of the other.
    scales = {_TEMPERATURES.get(unit) for unit in units}
    if None in scales:
        return False
    if has_bare_number or scales == {"c", "f"}:
        return _is_celsius_and_fahrenheit(one.value, other.value)
    return _is_equal(one.value, other.value)


def _in_base_units(quantity: _Quantity, factors: dict[str, Fraction]) -> list[Fraction]:
    """Return the value in metres, grams and so on; of a bare number, its values in all units of the dimension."""
    named = factors.get(quantity.unit) or factors.get(quantity.unit.removesuffix("s"))
    return [quantity.value * factor for factor in ([named] if named else factors.values())]


def _is_bare_conversion(one: Fraction, other: Fraction) -> bool:
    """Return whether one number could be a conversion of the other: by a factor such as 100 or 1,000."""
    if _is_equal(one, other):
        return True
    # No factor leads from or to 0, or changes the sign.
    if one == 0 or other == 0 or (one < 0) != (other < 0):
        return False

    less, more = sorted((abs(one), abs(other)))
    return any(_is_equal(less * factor, more) for factor in _EXACT_FACTORS)


def _is_close(one: Fraction, other: Fraction) -> bool:
    """Return whether two numbers differ by at most half a percent."""
    return abs(one - other) <= _ROUNDED * max(abs(one), abs(other))


def _is_equal(one: Fraction, other: Fraction) -> bool:
    """Return whether two numbers are equal, up to float rounding. Whole numbers can be ids and must be the same."""
    if one.denominator == other.denominator == 1:
        return one == other
    return abs(one - other) <= _FLOAT * max(abs(one), abs(other))


def _is_celsius_and_fahrenheit(one: Fraction, other: Fraction) -> bool:
    """Return whether one number in Celsius is the other in Fahrenheit (F = C × 9/5 + 32), within half a degree."""
    pairs = ((one, other), (other, one))
    return any(abs(celsius * 9 / 5 + 32 - fahrenheit) <= Fraction(1, 2) for celsius, fahrenheit in pairs)


# -- dates and times


_MOST_CHARACTERS = 64  # of a text that can be a date or time
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# a month in English, in full or short: `may`, `sept.`
_MONTH = re.compile(
    r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_SAYS_WHEN = re.compile(rf"\d|noon|midnight|{'|'.join(_MONTHS)}")
"""Matches every date and time. A text without a match needs no further check."""
# the places between a letter and a digit, where a space is inserted: `1st may2024` becomes `1 st may 2024`
_LETTERS_BESIDE_DIGITS = re.compile(r"(?<=\d)(?=[a-z])|(?<=[a-z])(?=\d)")
# words without meaning for a date: weekdays, articles, prepositions, endings of ordinal numbers
_NOISE = re.compile(
    r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\b\.?"
    r"|\b(?:the|of|at|on|t|st|nd|rd|th)\b|[,@]"
)
# date and time in digits only, such as `20240501T093000Z`, with and without seconds, and how they are separated
_COMPACT = (
    (re.compile(r"(\d{8})[t ]?(\d{2})(\d{2})(\d{2})(z?)"), r"\1 \2:\3:\4\5"),
    (re.compile(r"(\d{8})[t ]?(\d{2})(\d{2})(z?)"), r"\1 \2:\3\4"),
)
# a time such as `9:30`, `9h30` or `9 a.m.`, with seconds and time zone if given
_TIME = re.compile(
    r"(?<![\d:.])(?P<hour>\d{1,2})"
    r"(?:[:h](?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d{1,9})?)?|(?=\s*[ap]\.?m\b))(?:\s*(?P<half>[ap])\.?m\b\.?)?"
    r"\s*(?:(?P<utc>z\b|utc|gmt)|(?P<sign>[+-])(?P<offset_hours>\d{2}):?(?P<offset_minutes>\d{2})?(?![\d:]))?"
)
_ORDERS = {
    "Ynn": ("ymd",), "nnY": ("dmy", "mdy"), "nnn": ("dmy", "mdy", "ymd"), "Yn": ("ym",), "nY": ("my",),
    "nn": ("md", "dm"), "bnY": ("mdy",), "bnn": ("mdy",), "bn": ("md",), "nbY": ("dmy",), "nbn": ("dmy",),
    "nb": ("dm",), "Ybn": ("ymd",), "bY": ("my",), "Yb": ("ym",), "b": ("m",),
}  # fmt: skip
"""Possible orders of a date by its parts: Y is a year of four digits, n another number, b the name of a month.

`2024 5 1` is Ynn, read as year, month, day. `05/01/2024` is nnY: 5 January (dmy) or 1 May (mdy).
"""

_When: TypeAlias = datetime | int | tuple[tuple[str, int] | int, ...]


class _Moment(NamedTuple):
    """One reading of a text: the local time, and the time in UTC if the text names a time zone.

    `when` is a full date with time, the seconds of a day, or an incomplete date. `order` is the order in which the
    digits were read, and `mark` the separator between them.
    """

    when: _When
    utc: _When | None
    order: str = ""
    mark: str = ""

    def equals(self, other: "_Moment") -> bool:
        """Return whether both are the same time: in UTC if both texts name a time zone, else the same local time."""
        if self.utc is None or other.utc is None:
            return self.when == other.when
        return self.utc == other.utc


def same_moment(expected: str | float, actual: str | float) -> bool:
    """Return whether both values are the same date or time in different formats. A number is Unix time or YYYYMMDD.

    At least one of the two must be a text. A date alone equals its midnight. If only one value has a time zone, the
    local times are compared. Two ambiguous dates are read in the same order: 05/01/2024 and 01/05/2024 are two days.
    """
    if not isinstance(expected, str) and not isinstance(actual, str):
        return False

    expected_moments = list(_read_moments(expected))
    actual_moments = list(_read_moments(actual)) if expected_moments else []

    # Two dates like 05/01/2024, each day first or month first, are read in the same order if their separators are the
    # same.
    readings = (expected_moments, actual_moments)
    ambiguous = all(len({moment.when for moment in moments}) > 1 for moments in readings)
    marks, other_marks = ({moment.mark for moment in moments} for moments in readings)
    needs_same_order = ambiguous and marks == other_marks

    return any(
        one.equals(other) and (not needs_same_order or one.order == other.order)
        for one in expected_moments
        for other in actual_moments
    )


def _read_moments(value: str | float) -> Iterator[_Moment]:
    """Yield the dates and times that a text or number can mean; nothing if it cannot be a date or time."""
    if not isinstance(value, str):
        # a number as digits: Unix time, or YYYYMMDD
        value = f"{value:.0f}" if abs(value) < 1e15 else ""
    text = value.strip().lower().replace("noon", "12:00").replace("midnight", "00:00")
    if not 1 < len(text) <= _MOST_CHARACTERS or not text.isascii() or not _SAYS_WHEN.search(text):
        return

    if text.isdecimal() and len(text) in (10, 13):
        # Unix time in seconds, or milliseconds
        moment = datetime.fromtimestamp(int(text[:10]), UTC).replace(tzinfo=None)
        yield _Moment(moment, moment)

    compact = (match.expand(form) for pattern, form in _COMPACT if (match := pattern.fullmatch(text)))
    text = next(compact, text)
    time = _TIME.search(text)
    seconds, offset = (_seconds_of_day(time), _utc_offset(time)) if time else (0, None)
    if seconds is None:  # an impossible time, such as 25:00
        return

    date = f"{text[: time.start()]} {text[time.end() :]}" if time else text
    # Without its time, the rest of the text is a date, if anything is left.
    date = " ".join(_NOISE.sub(" ", _LETTERS_BESIDE_DIGITS.sub(" ", date)).split()).strip("- ")
    if date:
        yield from _read_dates(_MONTH.sub(lambda name: name[0][:3], date), seconds, offset)
    elif time:
        # A time without a date is compared by the seconds of its day.
        utc = None if offset is None else (seconds - offset) % 86400
        yield _Moment(seconds % 86400, utc)


def _seconds_of_day(time: re.Match[str]) -> int | None:
    """Return a matched time as seconds since midnight, or None if it is impossible, such as 25:00."""
    hour, minute, second = (int(time[name] or 0) for name in ("hour", "minute", "second"))
    if time["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if time["half"] == "p" else 0)

    total = hour * 3600 + minute * 60 + second
    # 60 seconds are a leap second, and 24:00 is the end of a day.
    return total if minute < 60 and second <= 60 and total <= 86400 else None


def _utc_offset(time: re.Match[str]) -> int | None:
    """Return how many seconds a matched time is ahead of UTC by its time zone, or None without a time zone."""
    if time["sign"]:
        sign = -1 if time["sign"] == "-" else 1
        return sign * (int(time["offset_hours"]) * 3600 + int(time["offset_minutes"] or 0) * 60)
    return 0 if time["utc"] else None


def _read_dates(text: str, seconds: int, offset: int | None) -> Iterator[_Moment]:
    """Yield the dates that digits and month names can mean.

    Each date is at `seconds` since midnight. `offset` is the time zone in seconds from UTC, or None.
    """
    if re.fullmatch(r"\d+[. ]\d+", text):  # a number such as `3.5` or `1 000`
        return

    # `20240501` has the same parts as `2024-05-01`.
    words = re.split(r"[-/. ]+", re.sub(r"^(\d{4})(\d{2})(\d{2})$", r"\1-\2-\3", text))
    shape = "".join(map(_letter_of_word, words))
    if shape not in _ORDERS:
        return

    mark = text[len(words[0]) : len(words[0]) + 1]  # the first separator
    numbers = [_MONTHS.index(word) + 1 if word in _MONTHS else int(word) for word in words]

    for order in _ORDERS[shape]:
        parts = dict(zip(order, numbers, strict=True))
        year, month, day = (parts.get(part) for part in "ymd")
        if year is not None and year < 100 and "Y" not in shape:
            year += 2000 if year < 70 else 1900  # `24` is 2024, `85` is 1985

        # A date without a year is checked in 2000, which has a 29 February.
        try:
            date = datetime(2000 if year is None else year, month or 0, 1 if day is None else day)  # noqa: DTZ001
            when = date + timedelta(seconds=seconds)
            utc = None if offset is None else when - timedelta(seconds=offset)
        except (ValueError, OverflowError):
            continue

        # An incomplete date equals only a date with the same parts.
        if year is None or day is None:
            yield _Moment((*sorted(parts.items()), seconds), None, order, mark)
        else:
            yield _Moment(when, utc, order, mark)


def _letter_of_word(word: str) -> str:
    """Return "Y" for a year of four digits, "n" for one or two digits, "b" for a month, and "?" for any other word."""
    if word in _MONTHS:
        return "b"
    letters = {4: "Y", 1: "n", 2: "n"}  # by the number of digits
    return letters.get(len(word), "?") if word.isdecimal() else "?"
