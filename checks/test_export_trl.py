"""`datasets export`: TRL's trainers train on the right answers that the files hold, and on nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.authoring_parts import lines
from tests.reference_environments import said_by
from tests.semantic_parts import torch_environment

from tunecheck.cli import main

TRL = ("torch==2.13.0+cpu", "trl==1.13.0", "transformers==5.23.0", "jinja2")
SAMPLE = Path(__file__).resolve().parent.parent / "datasets" / "val.jsonl"


def trained_on(message: dict[str, Any]) -> str:
    """A message as the loader's chat template writes it."""
    calls = (json.dumps(call["function"], ensure_ascii=False) for call in message.get("tool_calls") or [])
    return (message.get("content") or "") + "".join(calls) + "<|end|>"


def exact(text: str) -> str:
    """Without what the reader of `datasets` does to the last digits of a float: 0.3 is 0.30000000000000004."""
    return re.sub(r"\d+\.\d{12,}", lambda number: str(round(float(number[0]), 9)), text)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", ["conversations", "questions"])
def test_trls_trainers_read_what_is_exported(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    python = torch_environment("trl", TRL)
    monkeypatch.chdir(tmp_path)
    data = str(SAMPLE)
    if kind == "conversations":
        command = ["datasets", "author", "trade", "--simulator", "TradingBot", "--simulator", "TicketAPI"]
        assert main([*command, "--tasks", "12"]) == 0
        data = "trade.jsonl"
    assert main(["evaluate", "--dataset", data, "--limit", "150"]) == 0
    export = ["datasets", "export", "last", "--no-test-set", "--allow-simulated"]
    for form in ("sft", "dpo"):
        assert main([*export, "--to", form, "--out", f"{form}.jsonl"]) == 0
    sft, dpo = (lines(Path(f"{form}.jsonl")) for form in ("sft", "dpo"))
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    said = said_by(python, "export_trl_loader.py", "sft.jsonl", "dpo.jsonl", env=offline)
    assert len(sft) >= 5
    assert [*map(exact, said["sft"])] == [trained_on(line["completion"][0]) for line in sft]
    sides = ("chosen", "rejected")
    found = [[exact(text) for text in pair] for pair in said["dpo"]]
    assert found == [[trained_on(line[side][0]) for side in sides] for line in dpo]
