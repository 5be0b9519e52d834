"""Azure's own client for the evals API: its models take our bodies, it sends the same, and reads what we uploaded."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.conftest import ROOT, ReferenceEnvironment
from tests.foundry_fake import Fake
from tests.foundry_parts import blob_port, certificates, fake, run, uploader

from tunecheck.runs._store import Run

pytestmark = pytest.mark.slow

__all__ = ["blob_port", "certificates", "fake", "run"]

PACKAGES = ("azure-ai-projects==2.10.0", "openai==3.54.0")


def test_azures_models_take_our_bodies_and_its_client_reads_our_run(
    fake: Fake, run: Run, certificates: tuple[Path, Path], reference_env: ReferenceEnvironment
) -> None:
    done = uploader(fake.project, api="evals").upload(run)
    ours = [fake.of(step)[0].json() for step in ("create eval", "create run of evals")]
    given = {"project": fake.project, "evaluation": ours[0], "run": ours[1]}
    said = subprocess.run(
        [
            str(reference_env("azure-projects", *PACKAGES)),
            str(ROOT / "checks" / "foundry_evals_client.py"),
            json.dumps(given),
        ],
        env=os.environ | {"SSL_CERT_FILE": str(certificates[0])},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert said.returncode == 0, said.stderr[-3000:]
    theirs = [fake.of(step)[-1].json() for step in ("create eval", "create run of evals")]
    assert theirs == ours
    found = json.loads(said.stdout)
    assert (found["criteria"], found["contents"]) == (3, 3)
    (read,) = [each for each in found["read"] if each["id"] == done.run_id]
    scores = [[score for name, score, _ in results if name == "my_f1"] for results in read["results"]]
    assert scores == [[row["outputs.my_f1.f1_score"]] for row in run.rows()]
