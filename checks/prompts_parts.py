"""What checks of prompts share: running the packages' own loaders beside ours."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

from tunecheck._errors import TunecheckError
from tunecheck.prompts import load_prompt

__all__ = ["PROMPTFLOW", "PROMPTY", "Case", "ours", "run_theirs"]

PROMPTFLOW = "promptflow-core==1.18.5"
PROMPTY = "prompty[jinja2,openai]==2.1.0"

Case = tuple[Path | str, Sequence[Mapping[str, object]]]
"""A prompt file, and the values to render it with, one mapping after the other."""


def run_theirs(python: Path, which: str, cases: Sequence[Case], **env: str) -> dict[str, Any]:
    """What the loader of that package gives: see `prompts_theirs`."""
    done = subprocess.run(
        [str(python), str(ROOT / "checks" / "prompts_theirs.py"), which],
        input=json.dumps([(str(path), values) for path, values in cases]), env=os.environ | env,
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def ours(path: Path | str, values: Mapping[str, object]) -> Any:
    """Our messages, None where we refuse."""
    try:
        return load_prompt(path).render(values)
    except TunecheckError:
        return None
