"""Uploads to MLflow where its client is not installed."""

import sys

import pytest

from tunecheck import MissingExtraError
from tunecheck_mlflow import MlflowUploader


def test_before_a_run_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tunecheck\[mlflow\]'"):
        MlflowUploader("https://mlflow.example.org").check(simulated=False)
