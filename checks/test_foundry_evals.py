"""Azure's own client for the evals API: its models take our bodies, it sends the same, and reads what we uploaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import ReferenceEnvironment
from tests.foundry_fake import Fake
from tests.foundry_parts import certificates, fake, finished_run, run, uploader
from tests.reference_environments import said_by

from tunecheck.runs._store import Run
from tunecheck_azure._foundry import apis as foundry_evals

pytestmark = pytest.mark.slow

__all__ = ["certificates", "fake", "run"]

PACKAGES = ("azure-ai-projects==2.10.0", "openai==3.54.0")


def test_azures_models_take_our_bodies_and_its_client_reads_our_run(
    fake: Fake,
    run: Run,
    tmp_path: Path,
    certificates: tuple[Path, Path],
    reference_env: ReferenceEnvironment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = uploader(fake.project, api="evals").upload(run)
    monkeypatch.setattr(foundry_evals, "MOST_INLINE", 100)
    uploader(fake.project, api="evals").upload(finished_run(tmp_path / "large"))
    rows = tmp_path / "evaluation_items.jsonl"
    rows.write_text("{}\n", "utf-8")
    ours = [fake.of(step)[0].json() for step in ("create eval", "create run of evals")]
    given = {"project": fake.project, "evaluation": ours[0], "run": ours[1], "file": str(rows)}
    python = reference_env("azure-projects", *PACKAGES)
    trust = {name: str(certificates[0]) for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")}
    found = said_by(python, "foundry_evals_client.py", json.dumps(given), env=trust)
    theirs = [fake.of(step)[-1].json() for step in ("create eval", "create run of evals")]
    assert theirs == ours
    assert [asked.json() for asked in fake.of("reserve rows")] == [{"pendingUploadType": "BlobReference"}] * 2
    made = [asked.json() for asked in fake.of("register rows")]
    assert [each["type"] for each in made] == ["uri_file"] * 2
    assert [each["dataUri"].rpartition("/")[2] for each in made] == ["evaluation_items.jsonl"] * 2
    assert (found["criteria"], found["contents"]) == (3, 3)
    (read,) = [each for each in found["read"] if each["id"] == done.run_id]
    scores = [[score for name, score, _ in results if name == "my_f1"] for results in read["results"]]
    assert scores == [[row["outputs.my_f1.f1_score"]] for row in run.rows()]
