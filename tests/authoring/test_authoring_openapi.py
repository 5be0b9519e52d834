"""OpenAPI files as simulators: functions, what they do to records, and files that try to become code."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.authoring_parts import calls_of, lines, passes
from tests.tables import cases

from tunecheck import ConfigurationError, DataError, FunctionCall
from tunecheck.cli import main
from tunecheck.simulators import Backend, Backends
from tunecheck_authoring import Resources, write_simulator

CLINIC = Path(__file__).with_name("clinic.yaml").read_text("utf-8")


@pytest.fixture
def folder(cwd: Path) -> Iterator[Path]:
    (cwd / "clinic.yaml").write_text(CLINIC)
    yield cwd


def service(folder: Path, content: str | dict[str, Any] = CLINIC, name: str = "clinic") -> Backend:
    """The service of an OpenAPI file, with two animals."""
    file = folder / "api.yaml"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    path = folder / "simulators" / f"{name}.py"
    path.unlink(missing_ok=True)
    write_simulator(file, path)
    animals: Any = [{"id": 1, "name": "Mika", "species": "cat"}, {"id": 2, "name": "Rex", "species": "dog"}]
    return Backends(workspace=folder).start([name], {name: {"animal": animals}} if content is CLINIC else {})


def call(backend: Backend, function: str, /, **arguments: Any) -> Any:
    return backend.call(FunctionCall(function, arguments)).value


def test_records_are_created_read_changed_listed_and_deleted(folder: Path) -> None:
    clinic = service(folder)
    assert call(clinic, "addAnimal", name="Olga") == {"id": 3, "species": "cat", "name": "Olga"}
    assert call(clinic, "changeAnimal", animalId=3, age=4)["age"] == 4
    assert call(clinic, "getAnimal", animalId=3) == {"id": 3, "species": "cat", "name": "Olga", "age": 4}
    assert [each["id"] for each in call(clinic, "listAnimals", species="cat")["animal"]] == [1, 3]
    assert [each["id"] for each in call(clinic, "listAnimals", q="rex")["animal"]] == [2]
    assert len(call(clinic, "listAnimals", limit=1)["animal"]) == 1
    assert call(clinic, "removeAnimal", animalId=3) == {"deleted": 3}
    assert call(clinic, "addAnimal", name="Olga")["id"] == 4, "a key is never given twice"


def test_two_parameters_that_filter_by_the_same_field_both_count(folder: Path) -> None:
    pet = {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {}}}}
    answer = {"200": {"content": body({"type": "array", "items": pet})["content"]}}
    filters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("tag", "tags")]
    listed = {"operationId": "listPets", "parameters": filters, "responses": answer}
    pets = service(folder, api({"/pets": {"get": listed, "post": {"operationId": "addPet", "requestBody": body(pet)}}}))
    call(pets, "addPet", tags=["old", "shy"])
    call(pets, "addPet", tags=["shy"])
    assert len(call(pets, "listPets", tags="shy")["pet"]) == 2
    assert len(call(pets, "listPets", tag="old", tags="shy")["pet"]) == 1


def test_what_stands_in_something_else_belongs_to_it(folder: Path) -> None:
    clinic = service(folder)
    visit = call(clinic, "planVisit", animalId=1, day="2026-05-04")
    assert call(clinic, "get_animals_animalId_visits", animalId=1) == {"data": [visit]}
    assert call(clinic, "get_animals_animalId_visits", animalId=2) == {"data": []}
    problem = call(clinic, "getVisit", animalId=2, visitId=visit["id"])["error"]
    assert re.fullmatch("there is no visit with id .* for these arguments", problem)
    assert "there is no animal with id 9" in call(clinic, "planVisit", animalId=9, day="2026-05-04")["error"]


def test_names_around_records_differ_from_each_other(folder: Path) -> None:
    """An owner and a repository, for example: with equal ones a call that mixes them up would pass."""
    listed = {"responses": {"200": {"description": "ok"}}}
    path = "/repos/{owner}/{repo}/milestones/{number}"
    service(folder, {"openapi": "3.1.0", "info": {}, "paths": {path: {"get": listed}}}, "hub")
    sample: Any = Backends(workspace=folder).find("hub").sample()
    assert all(record["owner"] != record["repo"] for record in sample["milestone"]["$some"])


def test_a_verb_below_a_record_sets_the_value_that_it_speaks_of(folder: Path) -> None:
    clinic = service(folder)
    visit = call(clinic, "planVisit", animalId=1, day="2026-05-04")
    assert call(clinic, "cancelVisit", animalId=1, visitId=visit["id"])["status"] == "cancelled"


@cases("authoring")
def test_what_cannot_be_done_is_refused_with_the_reason(
    folder: Path, function: str, arguments: dict[str, Any], error: str
) -> None:
    clinic = service(folder)
    before = json.dumps(clinic.states())
    assert error in call(clinic, function, **arguments)["error"]
    assert json.dumps(clinic.states()) == before


def test_a_key_that_is_given_may_not_be_taken(folder: Path) -> None:
    properties = {"isbn": {"type": "string"}, "title": {"type": "string"}}
    books = {"post": {"operationId": "add", "requestBody": body({"type": "object", "properties": properties})}}
    book = {"get": {"operationId": "get", "parameters": [{"name": "isbn", "in": "path", "required": True}]}}
    library = service(folder, api({"/books": books, "/books/{isbn}": book}), "library")
    assert call(library, "add", isbn="a-1", title="Emma") == {"isbn": "a-1", "title": "Emma"}
    assert "there is already a book with isbn 'a-1'" in call(library, "add", isbn="a-1", title="Walden")["error"]


def test_an_api_in_swagger_is_the_same_service(folder: Path) -> None:
    new = service(folder).tool_definitions()
    old = yaml.safe_load(CLINIC)
    schemas = old.pop("components")["schemas"]
    text = json.dumps({**old, "definitions": schemas}).replace("#/components/schemas/", "#/definitions/")
    document = json.loads(text)
    document["swagger"] = "2.0"
    del document["openapi"]
    for path in document["paths"].values():
        for method, operation in path.items():
            if method == "parameters":
                continue
            given = operation.pop("requestBody", None)
            if given is not None:
                schema = given["content"]["application/json"]["schema"]
                operation.setdefault("parameters", []).append({"name": "body", "in": "body", "schema": schema})
            for answer in operation["responses"].values():
                answer |= answer.pop("content", {}).get("application/json", {})
    document["paths"]["/animals"]["post"]["parameters"][0]["required"] = True
    assert service(folder, document, "swagger").tool_definitions() == new


def api(paths: dict[str, Any], **components: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "paths": paths, "components": components}


def body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


HOSTILE = [
    "__class__",
    '"""\nimport os; os.abort()\n"""',
    "'); raise SystemExit #",
    "\\",
    "class",
    "1 + 1",
    "",
    "\u202e\u2028\ud800",
    "{x}",
]


def test_nothing_of_the_file_becomes_code(folder: Path) -> None:
    """Each text stands in every place: names are letters and digits, all else is a literal of the same value."""
    for text in HOSTILE:
        field = {"type": "string", "description": text, "enum": [text, "b"], "default": text, "examples": [text]}
        operation = {
            "operationId": text,
            "summary": text,
            "tags": [text],
            "requestBody": body({"type": "object", "properties": {text: field, "kept": field}}),
            "parameters": [{"name": text, "in": "query", "schema": field}],
        }
        hostile = service(folder, api({f"/{text}": {"post": operation}}), "hostile")
        (definition,) = hostile.tool_definitions()
        function: Any = definition["function"]
        assert function["name"].isidentifier() and not function["name"].startswith("_")
        assert all(name.isidentifier() and not name.startswith("_") for name in function["parameters"]["properties"])
        assert function["parameters"]["properties"]["kept"]["enum"] == [text, "b"]


def test_references_that_come_back_or_multiply_end(folder: Path) -> None:
    doubling = {f"S{n}": {"allOf": [{"$ref": f"#/components/schemas/S{n + 1}"}] * 50} for n in range(20)}
    tree = {"type": "object", "properties": {"left": {"$ref": "#/components/schemas/Tree"}, "name": {"type": "string"}}}
    itself = {"$ref": "#/components/schemas/Itself"}
    schemas = {**doubling, "S20": {}, "Tree": tree, "Itself": itself}
    for name in ("S0", "Tree", "Itself"):
        post = {"operationId": "f", "requestBody": body({"$ref": f"#/components/schemas/{name}"})}
        (definition,) = service(folder, api({"/x": {"post": post}}, schemas=schemas), "deep").tool_definitions()
        assert len(json.dumps(definition)) < 10_000


@cases("authoring")
def test_a_file_that_cannot_be_used_is_told_in_one_line(folder: Path, content: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error) as told:
        service(folder, content)
    assert "\n" not in str(told.value)
    assert not [*folder.glob("simulators/*")]


def test_the_simulator_of_an_authored_test_set_may_be_edited(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["datasets", "author", "clinic", "--openapi", "clinic.yaml", "--tasks", "4", "--overwrite"]
    assert main([*command, "--only", "/animals", "--only", "getAnimal"]) == 0
    rows = lines(folder / "datasets/clinic.jsonl")
    functions = {function for row in rows for turn in row["path"].split(" | ") for function in turn.split()}
    assert functions <= {"listAnimals", "addAnimal", "getAnimal"}
    assert {name for row in rows for name in row["involved_classes"]} >= {"clinic"}
    assert all(passes(row, calls_of(row)) for row in rows)
    simulator = folder / "simulators/clinic.tables.json"
    edited = simulator.read_text().replace("List the animals", "List all animals of the clinic")
    simulator.write_text(edited)
    assert main(command) == 0
    assert "exists, and is kept" in capsys.readouterr().out
    assert simulator.read_text() == edited


@pytest.mark.parametrize("text", ["{", '{"actions": {"f": {"makes": 7}}}', '{"actions": {"f": []}}'])
def test_unreadable_tables_are_told_in_one_line(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_simulator(folder / "clinic.yaml", folder / "simulators/clinic.py")
    (folder / "simulators/clinic.tables.json").write_text(text)
    assert main(["datasets", "author", "clinic", "--simulator", "clinic", "--stage", "world"]) == 2
    error = capsys.readouterr().err
    assert "clinic.tables.json: the service's tables cannot be read" in error and error.count("\n") == 1


def test_an_operation_that_takes_more_than_people_say_is_not_used(folder: Path) -> None:
    schema = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(101)}}
    body = {"content": {"application/json": {"schema": schema}}}
    created = {"operationId": "addThing", "requestBody": body, "responses": {"201": {"description": "made"}}}
    document = yaml.safe_load((folder / "clinic.yaml").read_text())
    document["paths"]["/things"] = {"post": created}
    (folder / "clinic.yaml").write_text(json.dumps(document))
    assert main(["datasets", "author", "clinic", "--openapi", "clinic.yaml", "--tasks", "2", "--stage", "graph"]) == 0
    graph = yaml.safe_load((folder / "authoring/clinic/graph.yaml").read_text())
    assert graph["functions"]["addThing"]["problem"] == "the function has 101 parameters; a request states at most 100"
    assert "problem" not in graph["functions"]["getAnimal"]


def test_no_call_of_an_authored_turn_is_made_for_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An example is a change to something that the same turn deletes."""
    command = ["datasets", "author", "clinic", "--openapi", "clinic.yaml", "--tasks", "30", "--variants", "none"]
    assert main(command) == 0
    capsys.readouterr()
    assert main(["datasets", "audit", "clinic.jsonl", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [each for each in findings if each["kind"] == "superfluous_call"] == []


def test_the_way_from_an_openapi_file_to_a_scored_endpoint_is_as_the_docs_tell(folder: Path) -> None:
    """Runs the page's file and commands; an endpoint that calls nothing is scored, and passes nothing."""
    page = (Path(__file__).parents[2] / "docs" / "authoring.md").read_text()
    section = page.partition("## From an OpenAPI file")[2].partition("\n## ")[0]
    _, openapi, _, commands, *_ = re.split(r"```(?:yaml|sh)?\n", section)
    (folder / "parcels.yaml").write_text(openapi)
    (folder / "endpoints").mkdir()
    (folder / "endpoints/mine.yaml").write_text("kind: python\nfunction: mine_code.py:answer\n")
    (folder / "endpoints/mine_code.py").write_text("def answer(messages):\n    return 'Done.'\n")
    for command in commands.strip().splitlines():
        options = ["--limit", "4"] if "evaluate" in command else []
        assert main([*shlex.split(command.replace("--tasks 20", "--tasks 4"))[1:], *options]) == 0, command
    (run,) = (folder / "eval_results").iterdir()
    metrics = json.loads((run / "metrics.json").read_text())["metrics"]
    assert metrics["multi_turn_state.binary_aggregate"] == 0


@pytest.mark.parametrize(
    ("key", "content", "complaint"),
    [
        ("id", {"id": 1}, "must be a list of objects, not {'id': 1}"),
        ("id", [1], "must be a list of objects, not [1]"),
        (None, [{"open": True}], "must be an object, its only record, not [{'open': True}]"),
    ],
)
def test_records_of_another_form_are_refused_with_the_right_form(
    key: str | None, content: object, complaint: str, tmp_path: Path
) -> None:
    tables = tmp_path / "shop.tables.json"
    tables.write_text(json.dumps({"resources": {"door": {"key": key}}, "actions": {}}))
    shop = type("Shop", (Resources,), {"tables": tables})
    with pytest.raises(DataError, match=re.escape(f"initial_config.door {complaint}")):
        shop().load({"door": content})
