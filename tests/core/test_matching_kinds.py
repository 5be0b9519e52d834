"""How a wrong argument is wrong: a kind for every pair of values, decided by rules."""

from __future__ import annotations

import pytest

from tunecheck.calls.matching import KINDS
from tunecheck.calls.matching._kinds import kind_of_wrong
from tunecheck.plugins import JSON

AS_TEXT: list[tuple[JSON, JSON]] = [
    (5, "5"),
    ("5", 5),
    (-5, "-5"),
    (5, " 5 "),
    (5, "+5"),
    (5, "05"),
    (5, "5.0"),
    (5.5, "5.5"),
    (1000, "1e3"),
    (5, "five"),
    (12, "Twelve"),
    (21, "twenty-one"),
    (205, "two hundred and five"),
    (1_200_000, "one million two hundred thousand"),
    (100, "a hundred"),
    (10**30, str(10**30)),
]
CONVERTED: list[tuple[JSON, JSON]] = [
    (5, 5.0),
    (0.05, 5),  # percent
    (5, 0.05),
    (0.5, "50%"),
    (50, "50 %"),
    (50, "50 percent"),
    (2, 2000),  # thousands, millions, billions
    (2_000_000, 2),
    (1.5, 1500),
    (10_000, "10k"),
    (10_000, "10 K"),
    ("1500", "1.5k"),
    (2_000_000, "2M"),
    (2_000_000, "2 million"),
    (3_000_000_000, "3bn"),
    (1000, "1,000"),
    (1_234_567.89, "1,234,567.89"),
    (1234.5, "1.234,5"),
    (1000, "1 000"),
    (1000, "1'000"),
    (1000, "1_000"),
    (100_000, "1,00,000"),
    ("1000", "1,000"),
    (5, "$5"),
    (5, "5 USD"),
    (5.5, "€5,50"),
    (5, "5 km"),
    (5, "5km"),
    (5000, "5 km"),
    (5, "5 apples"),
    ("5 km", "5000 m"),
    ("5 km", "3.1 miles"),
    ("10 lbs", "4.54 kg"),
    ("6 ft", "183 cm"),
    ("2 hours", "120 minutes"),
    (120, "2 hours"),
    (2, 120),  # hours and minutes
    (1, 3600),
    (3, 72),  # days and hours
    (100, 62),  # kilometres and miles, rounded
    (100, 62.14),
    (70, 154.3),  # kilograms and pounds
    (20, 68),  # degrees
    (68, 20),
    ("20C", "68F"),
    ("20 °C", 68),
    ("20 ° C", "68.5 °F"),
    (0, 32),
    ("1 GB", "1000 MB"),
    ("5", "five"),
    ("200 dollars", "two hundred dollars"),
    (5, "five miles"),
    (12, "a dozen eggs"),
    (10**30, 1e30),
    (12345678901234567890, 12345678901234567000.0),
    (10**40, 10**42),
]
OTHERWISE_DATED: list[tuple[JSON, JSON]] = [
    ("2024-01-05", "Jan 5, 2024"),
    ("2024-01-05", "January 5, 2024"),
    ("2024-01-05", "January 5th, 2024"),
    ("2024-01-05", "5 January 2024"),
    ("2024-01-05", "5th of January 2024"),
    ("2024-01-05", "Friday, 5 January 2024"),
    ("2024-01-05", "05/01/2024"),
    ("2024-01-05", "01/05/2024"),
    ("2024-01-05", "5/1/24"),
    ("2024-01-05", "05.01.2024"),
    ("2024-01-05", "5-Jan-2024"),
    ("2024-01-05", "2024/01/05"),
    ("2024-01-05", "2024-1-5"),
    ("2024-01-05", "20240105"),
    ("2024-01-05", 20240105),
    ("2024-01-05", "2024 Jan 5"),
    ("2024-01-05", "2024-01-05T00:00:00"),
    ("2024-01-05", "2024-01-05T00:00:00Z"),
    ("2024-01-05T10:00:00Z", "2024-01-05 10:00"),
    ("2024-01-05T10:00:00Z", "2024-01-05T12:00:00+02:00"),
    ("2024-01-05T23:30:00Z", "2024-01-06T01:30:00+02:00"),
    ("2024-01-05T10:00:00Z", "2024-01-05T10:00:00.000Z"),
    ("2024-01-05T10:00:00Z", "20240105T100000Z"),
    ("2024-01-05T10:00:00Z", 1704448800),
    ("2024-01-05T10:30:05Z", 1704450605),
    ("2024-01-05T10:00:00Z", "1704448800"),
    (1704448800000, "2024-01-05T10:00:00Z"),
    ("2024-01-05T17:00", "January 5, 2024 at 5pm"),
    ("2024-01-05 17:00", "5pm, 5 January 2024"),
    ("17:00", "5pm"),
    ("13/05/2024", "05/13/2024"),
    ("5/1/24", "05/01/2024"),
    ("05.01.2024", "01/05/2024"),
    ("2024-01-05 24:00", "2024-01-06"),
    ("17:00", "5 p.m."),
    ("17:00", "5:00 PM"),
    ("17:00", "17:00:00"),
    ("17:30", "17h30"),
    ("00:00", "12am"),
    ("12:30", "12:30 pm"),
    ("12:00", "noon"),
    ("00:00", "midnight"),
    ("08:00Z", "10:00+02:00"),
    ("2024-01", "January 2024"),
    ("01/2024", "2024-01"),
    ("Jan 5", "5 January"),
    ("Jan", "January"),
]
SPACED: list[tuple[JSON, JSON]] = [
    ("Paris", "paris"),
    ("New York", "NewYork"),
    ("New York", " new  york "),
    ("new_york", "New-York"),
    ("5 PM", "5pm"),
    ("１２", "12"),
    ("Straße", "STRASSE"),
    ("it's", "it’s"),
    ('say "hi"', "say “hi”"),
    ("New-York", "New–York"),
]
CLOSE: list[tuple[JSON, JSON]] = [
    ("color", "colour"),
    ("buy groceries", "buy grocery"),
    ("Paris", "Paris, France"),
    ("flight to Paris", "Paris to flight"),
    ("Send the report to Alice", "Send report to Alice"),
    ("héllo world", "hello world"),
]
OTHER: list[tuple[JSON, JSON]] = [
    (True, 1),
    (1, True),
    (True, "true"),
    (None, 0),
    (None, "null"),
    (1, None),
    ("celsius", "fahrenheit"),
    ("Paris", "London"),
    (5, 7),
    (3, 5),
    (7, 8),
    (20, 69),  # degrees, and one more
    ("20 °C", "68.6 °F"),
    (5, "6"),
    (0, 5),
    (5, -500),
    ("user_123", "user_124"),
    (12345678901, 12345678902),
    (2**53, 2**53 + 1),
    (1704448800, 1704448801),
    ("05/01/2024", "01/05/2024"),
    ("2024-01-05", "2024-05-01"),
    ("5/1", "1/5"),
    ("2024-01-05 24:00", "2024-01-05"),
    ("five", "six"),
    ("five six", 56),
    ("AB-1", "AB-2"),
    ("5 apples", "5 oranges"),
    ("5 km", "5 kg"),
    ("5pm", 5),
    ("2024-01-05", "2024-01-06"),
    ("2024-01-05", "2024-13-45"),
    ("2024-02-30", "30 Feb 2024"),
    ("17:00", "5am"),
    ("17:60", "18:00"),
    ("25:00", "1am"),
    ("2024-01-05T10:00:00Z", "2024-01-05T10:00:00+02:00"),
    ("2024-01-05T17:00", "5pm"),
    ("tomorrow", "2024-01-05"),
    ("", "x"),
    ("a", "the a"),
    ([1], 1),
    ([1], "1"),
    ([1, 2], [1]),
    ({"a": 1}, "a"),
    ({}, []),
    (10**400, 10**400 + 1),
    ("9" * 5000, 9),
    ("1" * 60, "2" * 60),
]

TABLE = [
    (kind, *pair)
    for kind, pairs in (
        ("number_as_text", AS_TEXT),
        ("number_conversion", CONVERTED),
        ("date_or_time_format", OTHERWISE_DATED),
        ("case_or_spacing", SPACED),
        ("close_wording", CLOSE),
        ("other", OTHER),
    )
    for pair in pairs
]


@pytest.mark.parametrize(("kind", "expected", "actual"), TABLE)
def test_each_wrong_value_has_its_kind_both_ways(kind: str, expected: JSON, actual: JSON) -> None:
    assert kind_of_wrong(expected, actual) == kind
    assert kind_of_wrong(actual, expected) == kind


def test_every_kind_that_a_table_holds_is_a_known_one() -> None:
    assert {kind for kind, *_ in TABLE} | {"list_order"} == set(KINDS)
