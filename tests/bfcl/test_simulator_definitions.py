"""Our tool definitions can stand in for the data's function documents: same names, parameters, types, requirements."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.bfcl_reference import reference_data, reference_python

from tunecheck.simulators import Simulator, find_simulator

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


def simulator(name: str) -> type[Simulator]:
    return find_simulator(name)


def documents(name: str) -> dict[str, Any]:
    path = reference_data() / "multi_turn_func_doc" / f"{SIMULATORS[name]}.json"
    lines = path.read_text(encoding="utf-8").splitlines()
    return {document["name"]: document["parameters"] for document in map(json.loads, lines)}


def definitions(name: str) -> dict[str, Any]:
    made: list[Any] = simulator(name).tool_definitions()
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
    names = [operation for name in SIMULATORS for operation in simulator(name).operations()]
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
    ours = {operation: list(each.parameters) for operation, each in simulator(name).operations().items()}
    assert ours == json.loads(done.stdout)
