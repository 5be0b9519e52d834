"""The eight services: what calls answer and change (simulator_cases.jsonl), and what a table cannot say.

A line has a service, its configuration, calls, and parts of the state after them by path. After a call's arguments:

"fine" or "error"; {"text": …}, {"value": …}: the whole reply; {"has": …}: some of its keys; {"in": …}, {"error": …}: a
part of its text; {"pick": [key, values]}: that key of each item.
"""

import copy
import decimal
import json
import math
import random
import subprocess
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.bfcl_check_parts import long_context
from tests.bfcl_reference import reference_data, reference_python
from tests.conftest import ROOT
from tests.tables import cases

from tunecheck import DataError
from tunecheck.calls import FunctionCall
from tunecheck.simulators import Backend, Backends, OperationResult


def lines(name: str) -> list[dict[str, Any]]:
    text = (Path(__file__).parent / f"simulator_{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def call(started: Backend, name: str, /, **arguments: Any) -> OperationResult:
    """One call by keyword."""
    return started.call(FunctionCall(name, arguments))


def started(service: str, /, *, padded: bool = False, **config: Any) -> Backend:
    if padded:
        simulator = Backends().find(service)()
        simulator.load(copy.deepcopy(config), long_context=long_context())
        return Backend({service: simulator})
    return Backends().start([service], {service: config})


def state_of(service: Backend) -> Any:
    (state,) = service.states().values()
    return state


def fits(result: OperationResult, expected: Any) -> bool:
    value: Any = result.value
    match expected:
        case "fine" | "error":
            return result.error is (expected == "error")
        case {"text": text}:
            return bool(result.text == text) and not result.error
        case {"value": whole}:
            return bool(value == whole)
        case {"has": part}:
            return bool({key: value[key] for key in part} == part)
        case {"in": part} | {"error": part}:
            return str(part) in result.text and result.error is ("error" in expected)
        case {"pick": [key, values]}:
            return bool([each[key] for each in value] == values)
    raise AssertionError(expected)


def at(state: Any, path: str) -> Any:
    """The part of a state; None where there is none. A dot at the end of a file's name is no step."""
    for step in path.split("."):
        state = state[int(step)] if isinstance(state, list) else state.get(step)
    return state


@pytest.mark.parametrize("case", lines("cases"), ids=lambda case: f"{case['service']}: {case['behaviour']}")
def test_a_service_answers_and_changes_as_the_table_says(case: dict[str, Any]) -> None:
    service = started(case["service"], **case.get("config", {}))
    for name, arguments, *expected in case["calls"]:
        result = service.call(FunctionCall(name, arguments))
        assert not expected or fits(result, expected[0]), (name, result.text)
    state = json.loads(json.dumps(state_of(service), default=sorted))
    wanted = case.get("state", {})
    assert {path: at(state, path) for path in wanted} == wanted


@pytest.mark.parametrize("case", lines("configurations"), ids=lambda case: f"{case['service']}: {case['said']}")
def test_a_configuration_that_cannot_be_used_says_which_part(case: dict[str, Any]) -> None:
    with pytest.raises(DataError) as raised:
        started(case["service"], **case["config"])
    assert case["said"] in str(raised.value)


@cases("bfcl")
def test_instances_share_nothing_with_each_other_with_their_configuration_and_with_callers(
    name: str, config: dict[str, Any], operation: str, arguments: dict[str, Any]
) -> None:
    before = copy.deepcopy(config)
    one, other = started(name, **config), started(name, **config)
    result: Any = call(one, operation, **arguments)
    changed = copy.deepcopy(state_of(one))
    for held in (*arguments.values(), result.value):
        if isinstance(held, (list, dict)):
            held.clear()
    assert not result.error and config == before
    assert state_of(one) == changed
    assert state_of(other) == state_of(started(name, **config)) != changed


def in_threads(work: Callable[[int], object]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# -- the file system


def directory(**contents: Any) -> dict[str, Any]:
    return {"type": "directory", "contents": contents}


def file(content: str = "") -> dict[str, Any]:
    return {"type": "file", "content": content}


def shell(**contents: Any) -> Backend:
    return started("GorillaFileSystem", root={"w": directory(**contents)})


def test_the_state_in_a_log_has_the_form_of_bfcls_logs() -> None:
    assert shell(d=directory(), f=file("x y")).state_texts()["GorillaFileSystem"] == {
        "long_context": False,
        "root": "<Directory: w, Parent: None, Contents: "
        "{'d': <Directory: d, Parent: w, Contents: {}>, 'f': <<File: f, Content: x y>>}>",
    }


def test_copies_of_copies_end_where_there_is_no_room() -> None:
    service = shell(d=directory(f=file("x" * 1_000)))
    results: list[OperationResult] = []
    for _ in range(40):  # each round doubles what is below d
        results.append(call(service, "cp", source="d", destination="e"))
        call(service, "mkdir", dir_name="b")
        call(service, "mv", source="d", destination="b")
        results.append(call(service, "mv", source="e", destination="b"))
        call(service, "mv", source="b", destination="d")
    assert any(result.error for result in results)
    assert len(call(service, "find").text) < 40_000_000


def test_directories_end_at_a_depth_of_a_hundred() -> None:
    service = shell()
    for _ in range(200):
        call(service, "mkdir", dir_name="d")
        call(service, "cd", folder="d")
    assert call(service, "mkdir", dir_name="d").error
    assert call(service, "pwd").text.count("/d") <= 100
    assert service.state_texts()


def test_entries_and_text_end_at_a_limit() -> None:
    service = shell(**{f"f{number}": file() for number in range(20_000)})
    assert call(service, "touch", file_name="one more").error
    call(service, "rm", file_name="f1")
    assert not call(service, "touch", file_name="one more").error
    assert call(service, "echo", content="x" * 20_000_000, file_name="f2").error
    assert state_of(service)["root"]["w"]["f2"] == ""


def test_a_configuration_that_holds_itself_or_is_too_large_is_refused() -> None:
    endless = directory()
    endless["contents"]["again"] = endless
    with pytest.raises(DataError, match="may be nested at most 100 levels deep"):
        Backends().find("GorillaFileSystem")().load({"root": {"w": endless}})
    with pytest.raises(DataError, match="too large"):
        shell(f=file("x" * 20_000_001))


def test_long_context_pads_files_and_lowest_directories_from_copies_of_the_constants() -> None:
    constants: Any = {
        "FILE_CONTENT_EXTENSION": " and more",
        "POPULATE_FILE_EXTENSION": ["p1", "p2"],
        "FILES_TAIL_USED": ["log.txt"],
    }
    before = copy.deepcopy(constants)
    config: Any = {"root": {"w": directory(a=file("A"), d=directory(**{"log.txt": file("L"), "p1": file("own")}))}}
    padded = {"w": {"a": "A and more", "d": {"log.txt": "L", "p1": "own and more", "p2": ""}}}
    for _ in range(2):
        simulator = Backends().find("GorillaFileSystem")()
        simulator.load(config, long_context=constants)
        service = Backend({"GorillaFileSystem": simulator})
        assert state_of(service) == {"long_context": True, "root": padded}
        call(service, "rm", file_name="d")
    assert constants == before


def test_file_systems_in_several_threads_do_not_meet() -> None:
    trees: list[Any] = []

    def work(number: int) -> None:
        service = shell()
        for round_ in range(200):
            call(service, "touch", file_name=f"{number}-{round_}")
        trees.append(state_of(service)["root"]["w"])

    in_threads(work)
    assert [len(tree) for tree in trees] == [200] * 8
    assert all(len({name.partition("-")[0] for name in tree}) == 1 for tree in trees)


COMMANDS = st.sampled_from([*Backends().find("GorillaFileSystem").operations()])
PLACES = st.sampled_from(["d", "e", "a", ".", "..", "/", "", "twin"]) | st.none() | st.text(max_size=3)


@given(st.lists(st.tuples(COMMANDS, PLACES, PLACES), max_size=60))
def test_whatever_is_called_the_tree_stays_finite(calls: list[tuple[str, Any, Any]]) -> None:
    service = shell(d=directory(e=directory(a=file("1"))), a=file("b\na"))
    for command, first, second in calls:
        parameters = Backends().find("GorillaFileSystem").operations()[command].parameters
        call(service, command, **dict(zip(parameters, (first, second), strict=False)))
    assert len(str(service.state_texts())) < 20_000_000
    assert copy.deepcopy(state_of(service)) == state_of(service)


# -- arithmetic

NUMBERS = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False, width=64)


def computed(name: str, *arguments: Any) -> OperationResult:
    given = {str(place): argument for place, argument in enumerate(arguments)}
    return started("MathAPI").call(FunctionCall(name, given))


def test_roots_have_as_many_digits_as_asked_for() -> None:
    # sqrt(2), OEIS A002193
    assert computed("square_root", 2, 30).text == "{'result': Decimal('1.41421356237309504880168872421')}"


@cases("bfcl")
def test_logarithms_have_as_many_correct_digits_as_asked_for(base: int, digits: str) -> None:
    for precision in range(5, len(digits) - 3, 7):
        text = computed("logarithm", 10, base, precision).text
        assert text.startswith(f"{{'result': mpf('{digits[: precision + 1]}")


def test_a_logarithm_of_a_negative_number_is_complex() -> None:
    # ln(-1)/ln(2) = i pi/ln(2) = 4.532360141827193809...i
    assert computed("logarithm", -1, 2, 12).text.startswith("{'result': mpc(real='0.0', imag='4.532360141827")


@given(value=NUMBERS.filter(lambda number: number > 0), base=st.floats(1.5, 1e6))
def test_logarithms_agree_with_floating_point(value: float, base: float) -> None:
    text = computed("logarithm", value, base, 20).text
    assert float(text.removeprefix("{'result': mpf('").removesuffix("')}")) == pytest.approx(
        math.log(value) / math.log(base), rel=1e-11, abs=1e-13
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("logarithm", (10**400, "1e999999999", 5)),
        ("logarithm", ("9" * 5_000, 2, 5)),
        ("square_root", (2, 10**8)),
        ("square_root", (2, 10**400)),
        ("power", (10**300, 10**300)),
        ("power", (3.0, 10**400)),
        ("power", (-2, -(10**8))),
        ("multiply", ([1], 10**9)),
        ("multiply", (10**4000, 10**4000)),
        ("add", (10**5000, 1)),
    ],
)
def test_what_could_run_or_grow_without_end_does_not(name: str, arguments: tuple[Any, ...]) -> None:
    result = computed(name, *arguments)
    assert result.error or result.text == '{"result": 0.0}'


@given(
    st.sampled_from([*Backends().find("MathAPI").operations()]),
    st.lists(NUMBERS | st.sampled_from(["m", "cm", "7", None, [1, 2.5], [], {}, 10**300]), max_size=3),
)
def test_no_call_fails_to_come_back(name: str, arguments: list[Any]) -> None:
    assert isinstance(computed(name, *arguments).text, str)


def test_precision_is_each_calls_own_in_every_thread() -> None:
    """The caller's decimal context does not change, and parallel calls do not change each other's digits."""
    before = decimal.getcontext().prec

    def texts(digits: int) -> list[str]:
        return [computed("square_root", 2, digits).text, computed("logarithm", 7, 3, digits).text]

    expected = [texts(digits) for digits in range(1, 60)]
    found: list[list[list[str]]] = []
    in_threads(lambda _: found.append([texts(digits) for digits in range(1, 60)]))
    assert found == [expected] * 8
    assert decimal.getcontext().prec == before


def test_arithmetic_has_no_state() -> None:
    service = started("MathAPI")
    call(service, "add", a=1, b=2)
    assert service.states() == {"MathAPI": {}}
    assert service.state_texts() == {}


# -- seeds, dates and long context

CARDS = {"card": {"balance": 1000.0}}
FLIGHT = {"travel_date": "2024-05-02", "travel_from": "SFO", "travel_to": "LAX", "travel_class": "economy"}
BOOKED = {"access_token": "tok", "card_id": "card", **FLIGHT}


def travelling(**config: Any) -> Backend:
    usual = {"access_token": "tok", "token_expires_in": 5, "credit_card_list": CARDS, "random_seed": 11}
    return started("TravelAPI", **{**usual, **config})


def test_sending_ends_before_the_ids_run_out() -> None:
    service = started("MessageAPI", current_user="USR001", generated_ids=[*range(10_000, 60_000)])
    assert call(service, "send_message", receiver_id="USR002", message="x").error


def test_deposits_and_withdrawals_are_dated_by_the_seed() -> None:
    account = {"account_id": 1, "balance": 100.0}
    service = started("TradingBot", authenticated=True, market_status="Open", account_info=account, random_seed=3)
    call(service, "fund_account", amount=5)
    call(service, "withdraw_funds", amount=2.5)
    chance, opening = random.Random(3), datetime.fromisoformat("2024-09-01 10:30:00")
    moments = [str(opening + timedelta(seconds=chance.randint(0, 86_400))) for _ in range(2)]
    assert [each["timestamp"] for each in state_of(service)["transaction_history"]] == moments


def test_authentication_gives_a_token_of_six_digits_from_the_seed() -> None:
    service = started("TravelAPI", random_seed=11)
    assert call(service, "travel_get_login_status").value == {"status": False}
    names = ("client_id", "client_secret", "refresh_token", "grant_type", "user_first_name", "user_last_name")
    granted: Any = call(service, "authenticate_travel", **dict.fromkeys(names, "read")).value
    assert granted["access_token"] == str(random.Random(11).randint(100_000, 999_999))
    assert (granted["scope"], granted["token_type"]) == ("read", "Bearer")
    assert call(service, "travel_get_login_status").value == {"status": True}
    assert not call(service, "get_booking_history", access_token=granted["access_token"]).error


def test_a_booking_is_paid_recorded_and_given_back() -> None:
    service, chance = travelling(), random.Random(11)
    ids = str(chance.randint(1_000_000, 9_999_999)), str(chance.randint(10_000_000, 99_999_999))
    assert call(service, "book_flight", **BOOKED).text == json.dumps(
        {"booking_id": ids[0], "transaction_id": ids[1], "booking_status": True, "booking_history": {}}
    )
    assert state_of(service)["credit_card_list"]["card"]["balance"] == 800.0
    invoice: Any = call(service, "retrieve_invoice", access_token="tok", booking_id=ids[0]).value
    assert invoice["invoice"] == {"booking_id": ids[0], **FLIGHT, "travel_cost": 200.0, "transaction_id": ids[1]}
    assert call(service, "cancel_booking", access_token="tok", booking_id=ids[0]).value == {"cancel_status": True}
    assert state_of(service)["credit_card_list"] == CARDS
    assert state_of(service)["booking_record"] == {}
    assert call(service, "cancel_booking", access_token="tok", booking_id=ids[0]).error


def test_a_card_is_registered_once_with_a_balance_from_the_seed() -> None:
    service, chance = travelling(), random.Random(11)
    card = {"card_number": "4", "expiration_date": "5/30", "cardholder_name": "Ada", "card_verification_number": 9}
    number = str(chance.randint(10**11, 10**12 - 1))
    assert call(service, "register_credit_card", access_token="tok", **card).value == {"card_id": number}
    assert state_of(service)["credit_card_list"][number] == {**card, "balance": chance.randint(10_000, 99_999)}
    assert call(service, "register_credit_card", access_token="tok", **{**card, "card_number": number}).error


@cases("bfcl")
def test_a_traveller_is_verified_by_name_age_and_passport(changes: dict[str, str], verified: bool) -> None:
    service = travelling(user_first_name="Ada", user_last_name="Byron")
    usual = {"first_name": "Ada", "last_name": "Byron", "date_of_birth": "1990-01-31", "passport_number": "US1"}
    told: Any = call(service, "verify_traveler_information", **{**usual, **changes})
    assert (told.value["verification_status"], told.error) == (verified, False)


def test_speed_and_temperature_come_from_the_seed_in_the_order_of_the_calls() -> None:
    service, chance = started("VehicleControlAPI", random_seed=6), random.Random(6)
    assert call(service, "get_current_speed").value == {"currentSpeed": chance.uniform(0, 120)}
    told = call(service, "get_outside_temperature_from_google").value
    assert told == {"outsideTemperature": chance.uniform(-10, 40)}


def test_long_context_pads_the_answers_of_the_trading_bot_and_not_its_state() -> None:
    service, constants = started("TradingBot", padded=True, authenticated=True, watch_list=["NVDA"]), long_context()
    before = json.dumps(state_of(service))
    assert call(service, "get_watchlist").value == ["NVDA", *constants["WATCH_LIST_EXTENSION"]]
    for _ in range(2):  # callers may change what they get
        stock: Any = call(service, "get_stock_info", symbol="AAPL").value
        assert stock["MA(5)"] == constants["MA_5_EXTENSION"]
        stock["MA(5)"].clear()
    listed: Any = call(service, "get_transaction_history").value
    assert listed["transaction_history"] == constants["TRANSACTION_HISTORY_EXTENSION"]
    details: Any = call(service, "get_order_details", order_id=12345).value
    assert "AAPL" in json.dumps(details["metadata"]) and "{symbol}" not in json.dumps(details["metadata"])
    assert json.dumps(state_of(service)) == before
    assert state_of(service)["long_context"] is True


def test_long_context_pads_the_answers_of_a_car_and_not_its_state() -> None:
    service, constants = started("VehicleControlAPI", padded=True), long_context()
    status: Any = call(service, "displayCarStatus", option="fuel").value
    assert [*status.items()] == [("metadata", constants["CAR_STATUS_METADATA_EXTENSION"]), ("fuelLevel", 0.0)]
    weather: Any = call(service, "get_outside_temperature_from_google").value
    assert [*weather] == [*constants["LONG_WEATHER_EXTENSION"], "outsideTemperature"]
    brake: Any = call(service, "activateParkingBrake", mode="engage").value
    assert brake["parkingBrakeInstruction"] == constants["PARKING_BRAKE_INSTRUCTION"]
    road: Any = call(service, "estimate_distance", cityA="83214", cityB="74532").value
    assert road["intermediaryCities"] == constants["INTERMEDIARY_CITIES"]
    tires: Any = call(service, "check_tire_pressure").value
    assert tires["car_info"] == constants["CAR_STATUS_METADATA_EXTENSION"]
    assert len(json.dumps(state_of(service))) < 1000


def test_long_context_adds_cards_and_bookings_to_the_state_behind_those_of_the_entry() -> None:
    constants = long_context()
    known = next(iter(constants["CREDIT_CARD_EXTENSION"]))
    own = {"card": {"balance": 1}, known: {"balance": 2}}
    state = state_of(travelling(padded=True, credit_card_list=own))
    assert [*state["credit_card_list"]][:2] == ["card", known]
    assert state["credit_card_list"] == {**constants["CREDIT_CARD_EXTENSION"], **own}
    assert state["booking_record"] == constants["BOOKING_RECORD_EXTENSION"]
    assert state["long_context"] is True


def test_long_context_lists_all_fares_and_all_bookings_and_instances_share_neither() -> None:
    service, other = travelling(padded=True), travelling(padded=True)
    before = json.dumps(state_of(other))
    listed: Any = call(service, "get_flight_cost", **FLIGHT).value
    assert len(listed["travel_cost_list"]) == 153
    card = next(iter(long_context()["CREDIT_CARD_EXTENSION"]))
    booked: Any = call(service, "book_flight", **{**BOOKED, "card_id": card}).value
    assert booked["booking_history"] == state_of(service)["booking_record"]
    assert len(booked["booking_history"]) == 17
    assert json.dumps(state_of(other)) == before == json.dumps(state_of(travelling(padded=True)))


def test_the_figures_are_those_that_the_script_tabulates() -> None:
    command = [str(reference_python()), str(ROOT / "scripts" / "tabulate_bfcl_figures.py"), str(reference_data())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    shipped = files("tunecheck_bfcl").joinpath("_services", "figures.json").read_text(encoding="utf-8")
    assert json.loads(done.stdout) == json.loads(shipped)


# -- our tool definitions can stand in for the data's function documents: same names, parameters, types, requirements


SIMULATORS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
TYPES = {"dict": "object", "float": "number"}


def documents(name: str) -> dict[str, Any]:
    path = reference_data() / "multi_turn_func_doc" / f"{SIMULATORS[name]}.json"
    lines = path.read_text(encoding="utf-8").splitlines()
    return {document["name"]: document["parameters"] for document in map(json.loads, lines)}


def definitions(name: str) -> dict[str, Any]:
    made: list[Any] = Backends().find(name).tool_definitions()
    return {each["function"]["name"]: each["function"] for each in made}


def shape(parameters: Any) -> Any:
    def kind(schema: Any) -> Any:
        return TYPES.get(schema.get("type"), schema.get("type"))

    properties = {
        name: (kind(each), kind(each.get("items", {})) if kind(each) == "array" else None)
        for name, each in parameters["properties"].items()
    }
    return properties, sorted(parameters["required"])


@pytest.mark.parametrize("name", SIMULATORS)
def test_definitions_agree_with_the_documents_of_the_data(name: str) -> None:
    ours = {operation: shape(each["parameters"]) for operation, each in definitions(name).items()}
    assert ours == {operation: shape(parameters) for operation, parameters in documents(name).items()}


def test_the_eight_simulators_have_128_operations_and_no_name_twice() -> None:
    names = [operation for name in SIMULATORS for operation in Backends().find(name).operations()]
    assert len(names) == len(set(names)) == 128


@pytest.mark.parametrize("name", SIMULATORS)
def test_every_operation_and_parameter_is_described(name: str) -> None:
    for operation, each in definitions(name).items():
        assert each["description"].endswith("."), operation
        for parameter, schema in each["parameters"]["properties"].items():
            assert schema.get("description"), f"{operation}: {parameter}"


@pytest.mark.parametrize("name", SIMULATORS)
def test_no_description_is_the_datas(name: str) -> None:
    path = reference_data() / "multi_turn_func_doc" / f"{SIMULATORS[name]}.json"
    theirs = path.read_text(encoding="utf-8")
    for operation, each in definitions(name).items():
        assert len(each["description"].split()) < 4 or each["description"] not in theirs, operation


SIGNATURES = """
import importlib, inspect, json, sys
from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING as files
name = sys.argv[1]
made = getattr(importlib.import_module(files[name]), name)
methods = inspect.getmembers(made, inspect.isfunction)
print(json.dumps({each: list(inspect.signature(method).parameters)[1:] for each, method in methods if each[0] != "_"}))
"""


@pytest.mark.parametrize("name", SIMULATORS)
def test_parameters_come_in_the_references_order_for_positional_calls(name: str) -> None:
    command = [str(reference_python()), "-c", SIGNATURES, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    ours = {operation: list(each.parameters) for operation, each in Backends().find(name).operations().items()}
    assert ours == json.loads(done.stdout)
