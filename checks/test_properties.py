"""Every property that the tests hold with a few random examples, with many more of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.conftest import ROOT


@pytest.mark.timeout(1_200)
def test_every_property_holds_with_many_examples() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", "--hypothesis-profile=thorough", "tests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-10_000:]
