"""Every request of an upload fails once, in every way; the upload that is repeated leaves one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.azure.test_foundry_failures import STEPS, place
from tests.foundry_fake import Failure, Fake
from tests.foundry_parts import certificates, fake, run, uploader

from tunecheck_upload import UploadError

if TYPE_CHECKING:
    from tunecheck import Run

__all__ = ["certificates", "fake", "run"]

WORDS = {
    "reserve": "reserve a place for the results",
    "blob": "upload instance_results.jsonl",
    "register": "register the results",
    "create": "create the run",
    "complete": "complete the run",
    "workspace": "find the project's workspace",
    "create run": "create the run",
    "datastore": "find the workspace's storage",
    "secrets": "get access to the workspace's storage",
    "register artifact": "register instance_results.jsonl",
    "properties": "write the run's properties",
    "metric": "log the metric",
    "finish": "finish the run",
}


def files(run: Run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.folder.iterdir() if "upload" not in path.name}


@pytest.mark.parametrize(("kind", "step"), STEPS)
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param({"status": 403}, id="refused"),
        pytest.param({"status": 500}, id="broken"),
        pytest.param({"status": 500, "after": True}, id="done-but-broken"),
        pytest.param({"cut": True, "after": True}, id="done-and-cut"),
        pytest.param({"cut": True}, id="cut"),
    ],
)
def test_an_upload_that_failed_is_repeated_and_leaves_one_run(
    fake: Fake, run: Run, kind: str, step: str, failure: dict[str, Any]
) -> None:
    before = files(run)
    fake.failures[step] = Failure(**failure, times=100)
    with pytest.raises(UploadError, match=f"^upload failed: could not {WORDS[step]}") as caught:
        uploader(place(fake, kind)).upload(run)
    if "status" in failure:
        assert caught.value.status == failure["status"]
        assert f"(Broken) {step} is down" in str(caught.value) or step == "blob"
        assert "request-" in str(caught.value.request_id)
    assert "token for" not in str(caught.value)
    assert files(run) == before
    fake.failures.clear()
    done = uploader(place(fake, kind)).upload(run)
    assert list(fake.runs) == [done.run_id]
    shown = fake.runs[done.run_id]
    assert shown["status"] == ("Completed" if kind == "foundry" else "FINISHED")
    if kind == "hub":
        assert all(len(logged) == 1 for logged in shown["metrics"].values())
        assert len(shown["metrics"]) == done.metrics
