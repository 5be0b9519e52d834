"""Azure's own client and ours upload the same evaluation: the same calls, with the same bodies up to ids and times."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from tests.conftest import ReferenceEnvironment
from tests.foundry_fake import NAMES, SCOPE, Asked, Fake, certificate, serving
from tests.reference_environments import AZURE, said_by

pytestmark = pytest.mark.slow


ROWS: list[dict[str, Any]] = [
    {"response": "Rome is sunny", "ground_truth": "Rome is very sunny", "weight": 0.30000000000000004},
    {"response": "café = 5 €", "ground_truth": "café = 5 €", "weight": 0.3333333333333333},
    {"response": "no", "ground_truth": "yes", "weight": 2.5},
]


@dataclass
class Uploads:
    """What either client asked each kind of project for, and the page that it gave."""

    theirs: dict[str, list[Asked]]
    ours: dict[str, list[Asked]]
    pages: list[str]
    runs: list[str]


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory, reference_env: ReferenceEnvironment, blob_port: int) -> Uploads:
    folder = tmp_path_factory.mktemp("official")
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    chain, key = certificate(folder)
    python = reference_env("azure", *AZURE)
    with serving(Fake(blob_port), chain, key) as fake:
        theirs = {name: value for name, value in fake.hub.items() if name != "resource_manager"}
        given = {
            "names": NAMES,
            "port": fake.port,
            "data": str(data),
            # Ours sends tokens only to Azure's hosts and to the one that the user names, here the fake's.
            "projects": [(fake.project, fake.project), (theirs, fake.hub)],
        }
        trust = {name: str(chain) for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")}
        pages = said_by(python, "foundry_official.py", json.dumps(given), env=trust)
        assert fake.violations == []
        kinds = _by_kind_and_client(fake.asked)
        return Uploads(kinds["theirs"], kinds["ours"], pages, list(fake.runs))


def _by_kind_and_client(asked: list[Asked]) -> dict[str, dict[str, list[Asked]]]:
    """The four uploads went one after another; each begins with a step of its own."""
    starts = [index for index, each in enumerate(asked) if each.step in ("reserve", "workspace")]
    parts = [asked[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    assert len(parts) == 4
    return {"theirs": {"foundry": parts[0], "hub": parts[2]}, "ours": {"foundry": parts[1], "hub": parts[3]}}


KINDS = pytest.mark.parametrize("kind", ["foundry", "hub"])


@KINDS
def test_the_same_steps_come_in_the_same_order(uploads: Uploads, kind: str) -> None:
    theirs = list(dict.fromkeys(asked.step for asked in uploads.theirs[kind]))
    assert list(dict.fromkeys(asked.step for asked in uploads.ours[kind])) == theirs


@KINDS
def test_every_call_but_those_for_our_further_metrics_is_there_once(uploads: Uploads, kind: str) -> None:
    ours = [asked.step for asked in uploads.ours[kind] if asked.step != "metric"]
    assert ours == [asked.step for asked in uploads.theirs[kind] if asked.step != "metric"]


@KINDS
def test_methods_paths_and_queries_are_the_same_up_to_ids(uploads: Uploads, kind: str) -> None:
    for theirs, ours in zip(_one_of_each(uploads.theirs[kind]), _one_of_each(uploads.ours[kind]), strict=True):
        assert ours.method == theirs.method
        assert _without_ids(ours.path) == _without_ids(theirs.path)
        if ours.step != "blob":
            assert ours.query == theirs.query
        assert set(ours.query) == set(theirs.query)


@KINDS
def test_the_headers_that_the_services_read_are_the_same(uploads: Uploads, kind: str) -> None:
    for theirs, ours in zip(_one_of_each(uploads.theirs[kind]), _one_of_each(uploads.ours[kind]), strict=True):
        # Not If-None-Match: a file that an attempt before has put there unanswered is replaced.
        for name in ("Authorization", "x-ms-blob-type", "x-ms-version"):
            assert _for_azure(ours.headers.get(name)) == theirs.headers.get(name), (ours.step, name)
        if ours.step != "blob" and ours.body:
            assert ours.headers["Content-Type"].partition(";")[0] == theirs.headers["Content-Type"].partition(";")[0]


def _for_azure(header: str | None) -> str | None:
    """A header of ours as it would be for Azure's own resource manager, whose place the fake takes."""
    return header and re.sub(r"https://localhost:\d+/", "https://management.azure.com/", header)


@KINDS
def test_the_bodies_are_the_same_up_to_ids_and_times(uploads: Uploads, kind: str) -> None:
    compared = 0
    for theirs, ours in zip(_one_of_each(uploads.theirs[kind]), _one_of_each(uploads.ours[kind]), strict=True):
        if ours.step in ("blob", "metric") or not ours.body:
            continue
        assert _comparable(ours.json()) == _comparable(theirs.json()), ours.step
        compared += 1
    assert compared >= 4


@KINDS
def test_their_metrics_are_all_there_with_their_values(uploads: Uploads, kind: str) -> None:
    theirs, ours = _metrics(uploads.theirs[kind]), _metrics(uploads.ours[kind])
    assert theirs
    for name, value in theirs.items():
        # Their pass rate is rounded to two digits.
        assert ours[name] == pytest.approx(value, abs=0.005 if name.endswith("binary_aggregate") else 1e-12), name
    assert all(name.endswith("_count") for name in ours.keys() - theirs.keys())


@KINDS
def test_the_rows_are_the_same_up_to_the_digits_that_they_cut(uploads: Uploads, kind: str) -> None:
    theirs, ours = _rows(uploads.theirs[kind]), _rows(uploads.ours[kind])
    assert len(ours) == len(theirs) == len(ROWS)
    for row, other in zip(ours, theirs, strict=True):
        assert row.keys() - other.keys() == {"outputs.cause"}
        assert other.keys() <= row.keys()
        for key, value in other.items():
            assert row[key] == (pytest.approx(value, abs=1e-10) if isinstance(value, float) else value), key
    assert ours[1]["inputs.weight"] == 0.3333333333333333
    assert theirs[1]["inputs.weight"] != 0.3333333333333333


def test_both_give_the_same_kind_of_page(uploads: Uploads) -> None:
    pages = [_without_run(page, uploads.runs) for page in uploads.pages]
    assert pages[0] == pages[1]
    assert pages[2] == pages[3] == f"https://ai.azure.com/build/evaluation/RUN?wsid={SCOPE}"


def _without_run(page: str, runs: list[str]) -> str:
    for run in runs:
        page = page.replace(run, "RUN")
    return page


def _one_of_each(asked: list[Asked]) -> list[Asked]:
    return list({each.step: each for each in reversed(asked)}.values())[::-1]


def _without_ids(path: str) -> str:
    return "/".join("ID" if len(part) == 36 and part.count("-") == 4 else part for part in path.split("/"))


def _rows(asked: list[Asked]) -> list[dict[str, Any]]:
    (blob,) = [each for each in asked if each.step == "blob"]
    return [json.loads(line) for line in blob.body.splitlines()]


def _metrics(asked: list[Asked]) -> dict[str, float]:
    for each in asked:
        if each.step == "register":
            found: dict[str, float] = each.json()["metrics"]
            return found
    return {each.json()["key"]: each.json()["value"] for each in asked if each.step == "metric"}


OWN = ("tunecheck.run", "tunecheck.upload")
"""What we add, to find a run again."""

_IDS = ("run_uuid", "run_id", "runId", "start_time", "end_time", "container", "relativePath", "evaluationResultId")


def _comparable(value: Any, key: str = "") -> Any:
    if key in _IDS:
        return type(value).__name__
    if key == "blobUri":
        return _without_ids(value)
    if key in ("metrics", "_azureml.evaluation_sdk_name", "user_id"):
        return key
    if key in ("_azureml.evaluate_artifacts", "_azureml.evaluation_name_map_0"):
        return json.loads(value)
    if key == "tags" and isinstance(value, list):
        who = {"mlflow.user": "somebody"}
        return {tag["key"]: who.get(tag["key"], tag["value"]) for tag in value if tag["key"] not in OWN}
    if isinstance(value, dict):
        return {name: _comparable(entry, name) for name, entry in value.items() if name not in OWN}
    return value
