"""Routes in words: steps, sentences, arrows, tables; whether they lead to the destination."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st
from tests.memory_scoring_parts import ROUTE, score, verdict_of

from tunecheck_memory._kinds.routes import Places, moves, read_routes
from tunecheck_memory._rules import Undecided

RIGHT = {
    "a list of moves": "Go 4 km east, 3 km west, 3 km south, 2 km east and 1 km north.",
    "letters and arrows": "4km E -> 3km W -> 3km S -> 2km E -> 1km N",
    "the direction first": "East 4 km, West 3 km, South 3 km, East 2 km, North 1 km.",
    "numbers in words": (
        "Head east four kilometers to the Cinema, then turn around and walk west three kilometres to the "
        "Fish Market, go south 3 kilometers to the Windmill, east two kilometers to the fountain of the "
        "lions, and one kilometer north."
    ),
    "meters": (
        "Travel 4000 m east to the Cinema. Go back 3000 m west to the Fish Market. Walk 3000 meters south "
        "to the Windmill. From there it's 2000 metres east to the Fountain of Lions. The Tram Stop is "
        "1000 m north of it."
    ),
    "another way": "Go 1 km east to the Fish Market, 3 km south to the Windmill, 2 km east, then 1 km north.",
    "the shortest way": "Just go 3 km east and then 2 km south.",
    "numbered steps": (
        "1. Start at the Bakery.\n2. Head east to the Cinema (4 km).\n3. Head west to the Fish Market, "
        "which is 3 km away.\n4. **Go South to the Windmill** - Travel 3 KM south from the Fish Market to "
        "reach the Windmill.\n5. Head east until you reach the Fountain of Lions. It lies 2 km east of "
        "the Windmill.\n6. The Tram Stop is 1 km north of it."
    ),
    "steps with lines below": (
        "1. Bakery to Cinema\n   * Direction: East\n   * Distance: 4 km\n2. Cinema to Fish Market\n   * "
        "Direction: West\n   * Distance: 3 km\n3. Fish Market to Windmill\n   * Direction: South\n   * "
        "Distance: 3 km\n4. Windmill to Fountain of Lions\n   * Direction: East\n   * Distance: 2 km\n5. "
        "Fountain of Lions to Tram Stop\n   * Direction: North\n   * Distance: 1 km"
    ),
    "a table": (
        "| From | To | Direction | Distance |\n|---|---|---|---|\n| Bakery | Cinema | East | 4 km |\n| "
        "Cinema | Fish Market | West | 3 km |\n| Fish Market | Windmill | South | 3 km |\n| Windmill | "
        "Fountain of Lions | East | 2 km |\n| Fountain of Lions | Tram Stop | North | 1 km |"
    ),
    "a chain of places": (
        "Bakery → Cinema: 4 km East\nCinema → Fish Market: 3 km West\nFish Market → Windmill: 3 km "
        "South\nWindmill → Fountain of Lions: 2 km East\nFountain of Lions → Tram Stop: 1 km North"
    ),
    "moves in brackets": (
        "Bakery -> Cinema (4 km East) -> Fish Market (3 km West) -> Windmill (3 km South) -> Fountain of "
        "Lions (2 km East) -> Tram Stop (1 km North)"
    ),
    "only where places lie": (
        "The Cinema is 4 km east of the Bakery, the Fish Market is 3 km west of the Cinema, the Windmill "
        "is 3 km south of the Fish Market, the Fountain of Lions is 2 km east of the Windmill, and the "
        "Tram Stop is 1 km north of the Fountain of Lions."
    ),
    "where it lies, then how to go": (
        "The Tram Stop is 3 km east and 2 km south of the Bakery. So go 3 km east, 2 km south."
    ),
    "twice": (
        "1. Go 4 km east.\n2. Go 3 km west.\n3. Go 3 km south.\n4. Go 2 km east.\n5. Go 1 km north to the "
        "Tram Stop.\n\nSummary:\n1. Cinema: 4 km east\n2. Fish Market: 3 km west\n3. Windmill: 3 km "
        "south\nTotal distance: 13 km."
    ),
    "an alternative after it": (
        "Go 3 km east and 2 km south to the Tram Stop. Alternatively, walk 9 km north and 1 km west to the Tram Stop."
    ),
}

WRONG = {
    "a refusal": "I'm sorry, I don't know where that is.",
    "a wrong step": "Go 4 km east, 3 km west, 3 km south, 2 km east and 1 km south.",
    "no distances": "1. Go east to the Cinema.\n2. Go west to the Fish Market.\n3. Go south to the Windmill.",
    "one distance missing": (
        "Go 4 km east to the Cinema, then west to the Fish Market, then 3 km south to the Windmill, 2 km "
        "east to the Fountain of Lions and 1 km north to the Tram Stop."
    ),
    "no directions": "From the Bakery to the Cinema (4 km), then to the Tram Stop (10 km).",
    "a question back": "Where is the Bakery? Tell me, for example, '2 km north of the Windmill'.",
    "nothing": "",
}


@pytest.mark.parametrize("reply", RIGHT.values(), ids=RIGHT.keys())
def test_a_route_that_leads_there_is_right(reply: str) -> None:
    assert score("Locations Directions", [ROUTE], reply) == 1


@pytest.mark.parametrize("reply", WRONG.values(), ids=WRONG.keys())
def test_a_route_that_does_not_is_wrong(reply: str) -> None:
    assert score("Locations Directions", [ROUTE], reply) == 0


def test_the_reason_says_where_the_route_leads() -> None:
    found = verdict_of("Locations Directions", [ROUTE], "Go 4 km east.")
    assert found.reasons == ("the route leads 4 km east, not 3 km east and 2 km south",)


def test_an_expectation_that_is_no_route_is_not_scored() -> None:
    assert isinstance(verdict_of("Locations Directions", ["somewhere"], "Go 4 km east."), Undecided)


def test_names_of_places_are_no_directions() -> None:
    expected = "From West End, go 2km North to South Station."
    assert score("Locations Directions", [expected], "From West End go 2 km north to South Station.") == 1


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("4 km east", 1),
        ("Go East. It is 4 km.", 1),
        ("The Mill is 4 km west of the Chapel, so go 4 km east.", 1),
        ("Head east for four kilometres to get to the Chapel.", 1),
        ("The Chapel is 4 km east of the Mill.", 1),
        ("4 km west", 0),
        ("The Mill is 4 km west of the Chapel.", 0),
        ("3 km east", 0),
        ("I don't know", 0),
    ],
)
def test_one_way_is_told_from_the_way_back(reply: str, right: float) -> None:
    assert score("Locations", ["From Mill, go 4km East to Chapel."], reply) == right


@pytest.mark.parametrize(
    ("text", "east", "north"),
    [
        ("2 km NE", math.sqrt(2), math.sqrt(2)),
        ("north-west for 1 km", -math.sqrt(0.5), math.sqrt(0.5)),
        ("half a kilometer to the south", 0, -0.5),
        ("1½ km west", -1.5, 0),
        ("another kilometre southwards", 0, -1),
        ("1,5 km due east", 1.5, 0),
        ("one mile north", 0, 1.609344),
        ("3 further kilometers north", 0, 3),
        ("500 m E", 0.5, 0),
        ("5 North", 0, 5),
    ],
)
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
def test_a_route_written_out_in_steps_is_read_as_it_was_meant(
    legs: list[tuple[int, str]], form: str, listed: bool
) -> None:
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
        assert all(math.isfinite(way) for way in route.displacement())
