"""Verdicts of BFCL's own checker, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.bfcl_check_parts import Row
from tests.bfcl_reference import reference_python


def judged_by_the_reference(cases: Sequence[Row], folder: Path) -> list[tuple[bool, str | None]]:
    """BFCL's own verdicts; `checker_crash` where its checker raises."""
    given, out = folder / "cases.jsonl", folder / "verdicts.jsonl"
    given.write_text("".join(f"{json.dumps(case)}\n" for case in cases), "utf-8")
    script = Path(__file__).with_name("bfcl_check_reference.py")
    command = [str(reference_python()), "-W", "ignore", str(script), str(given), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert not done.returncode, done.stderr[-2000:]
    verdicts = map(json.loads, out.read_text("utf-8").splitlines())
    return [
        (each["valid"], None if each["valid"] else "checker_crash" if "crash" in each else each["error_type"])
        for each in verdicts
    ]
