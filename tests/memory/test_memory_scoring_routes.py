"""Routes in words: steps, sentences, arrows, tables; whether they lead to the destination."""

import math

import pytest
from hypothesis import given, strategies as st
from tests.memory_scoring_parts import ROUTE, score, verdict_of
from tests.tables import cases

from tunecheck_memory._kinds.town import Places, moves, read_routes


def test_the_reason_says_where_the_route_leads() -> None:
    found = verdict_of("Locations Directions", [ROUTE], "Go 4 km east.")
    assert found.reasons == ("the route leads 4 km east, not 3 km east and 2 km south",)


@cases("memory")
def test_a_distance_and_a_direction_are_a_move(text: str, east: float, north: float) -> None:
    (move,) = moves(text)
    assert move.vector() == pytest.approx((east, north))


def test_single_letters_count_only_beside_a_distance() -> None:
    assert moves("Mr. S. E. Nord and plan N were there.") == []


LEGS = st.lists(
    st.tuples(st.integers(1, 9), st.sampled_from(("North", "South", "East", "West"))), min_size=2, max_size=6
)
FORMS = (
    "Head {way} for {km} kilometers to reach the {place}.",
    "Travel {km} KM {Way} to the {place}.",
    "Go {km}km {way} and you reach {place}.",
    "Walk {way} to the {place} ({km} km).",
    "Go {way} to {place}, which is {km} km away.",
)


@given(LEGS, st.sampled_from(FORMS), st.booleans())
def test_a_route_written_in_steps_is_read_as_it_was_meant(legs: list[tuple[int, str]], form: str, listed: bool) -> None:
    places = [f"{word} Square" for word in ("Alder", "Birch", "Cedar", "Dogwood", "Elder", "Fir", "Ginkgo")][
        : len(legs) + 1
    ]
    steps = [
        form.format(km=km, way=way.lower(), Way=way, place=place)
        for (km, way), place in zip(legs, places[1:], strict=True)
    ]
    text = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)) if listed else " ".join(steps)
    expected = "\n".join(
        f"From {start}, go {km}km {way} to {end}."
        for (km, way), start, end in zip(legs, places, places[1:], strict=False)
    )
    assert score("Locations Directions", [expected], text) == 1


@given(st.text(alphabet="NSEWkm 0123456789.,\n()->northeaswuthfrom", max_size=400))
def test_any_text_has_routes_of_complete_moves_or_none(text: str) -> None:
    for route in read_routes(text, Places(["Mill", "Chapel"])):
        assert all(leg.is_complete for leg in route.legs)
        assert all(map(math.isfinite, route.displacement()))
