"""Two checkouts on the same data: rows, metrics, verdicts and replays must be the same, reasons included.

    python checks/compare_commits.py OLD [NEW]            # checkouts; OLD/.venv, NEW/.venv or this python run them
    python checks/compare_commits.py OLD NEW --python-old P --python-new P --bfcl COPY

Each case runs in a folder of its own with both checkouts. What legitimately differs between any two runs (latency, ids,
times) is dropped, and so are `faults` and `format_version`. Every other difference is printed; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("TUNECHECK_TEST_DATA", ROOT.parent / "shared" / "data"))

DROPPED = frozenset({"faults", "format_version", "outputs.latency_ms", "latency_ms", "outputs.request_id"})
MOST_SHOWN = 12


@dataclass(frozen=True)
class Side:
    """A checkout and the python that runs it."""

    checkout: Path
    python: str
    bfcl: str | None

    def run(self, folder: Path, *arguments: str) -> str:
        """Run `tunecheck …` in the folder; gives what it printed."""
        environment = {**os.environ, "PYTHONPATH": str(self.checkout / "src"), "COLUMNS": "120"}
        if self.bfcl:
            environment["TUNECHECK_BFCL"] = self.bfcl
        command = [self.python, "-m", "tunecheck", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 3):
            raise SystemExit(f"{self.checkout}: tunecheck {' '.join(arguments)}: {done.stderr.strip()[-2000:]}")
        return done.stdout


Case = Callable[[Side, Path], dict[str, object]]
"""Runs one side in a folder; gives what must be equal, by name."""


def evaluation(*arguments: str, data: str | None = None) -> Case:
    """`tunecheck evaluate` over a data set: its rows and its metrics."""

    def run(side: Side, folder: Path) -> dict[str, object]:
        for name in ("datasets", "endpoints"):
            shutil.copytree(ROOT / name, folder / name)
        if data is not None:
            side.run(folder, "datasets", "convert", "glaive", data, "--out", "datasets/converted.jsonl")
        side.run(folder, "evaluate", "--name", "one", "--seed", "7", "--quiet", *arguments)
        return written(next((folder / "eval_results").glob("one-*")))

    return run


def bfcl_scores(published: Path, *arguments: str) -> Case:
    """`tunecheck bfcl score` over a published result tree: every verdict and every figure."""

    def run(side: Side, folder: Path) -> dict[str, object]:
        shutil.copytree(published, folder / "run")
        side.run(folder, "bfcl", "score", "run", "--out", "scores", *arguments)
        return dict(files_of(folder / "scores"))

    return run


def bfcl_evaluation(published: Path, category: str) -> Case:
    """`tunecheck evaluate` over BFCL's rows with recorded answers."""

    def run(side: Side, folder: Path) -> dict[str, object]:
        (result,) = published.glob(f"result/*/*/BFCL_v4_{category}_result.json")
        (folder / "replayed.yaml").write_text(f"kind: replay\npath: {result}\n", "utf-8")
        side.run(
            folder,
            "evaluate",
            "--dataset",
            f"bfcl:{category}",
            "--endpoint",
            "replayed.yaml",
            "--name",
            "one",
            "--quiet",
        )
        return written(next((folder / "eval_results").glob("one-*")))

    return run


def rescored(*arguments: str) -> Case:
    """`tunecheck memory rescore` over recorded tests."""

    def run(side: Side, folder: Path) -> dict[str, object]:
        recorded = SHARED / "ltm" / "recorded_scores.jsonl"
        side.run(folder, "memory", "rescore", str(recorded), "--out", "scores.jsonl", *arguments)
        return {"scores": lines_of(folder / "scores.jsonl")}

    return run


def written(run: Path) -> dict[str, object]:
    """The rows and metrics of a run folder."""
    metrics: dict[str, object] = json.loads((run / "metrics.json").read_text("utf-8"))
    return {"rows": lines_of(run / "eval_results.jsonl"), "metrics": without_dropped(metrics)}


def files_of(folder: Path) -> Iterator[tuple[str, object]]:
    """Every file below a folder, by its path."""
    for path in sorted(folder.rglob("*.*")):
        if path.is_file():
            text = path.read_text("utf-8")
            try:
                content: object = without_dropped(json.loads(text))
            except ValueError:
                content = [without_dropped(json.loads(line)) for line in text.splitlines()] if "{" in text[:1] else text
            yield path.relative_to(folder).as_posix(), content


def lines_of(path: Path) -> list[object]:
    """The objects of a JSON Lines file."""
    return [without_dropped(json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def without_dropped(value: object) -> object:
    """The value without what differs between any two runs; properties that held nothing else are None, as before."""
    if isinstance(value, Mapping):
        kept = {key: without_dropped(item) for key, item in value.items() if key not in DROPPED}
        return kept or (None if value else kept)
    return [without_dropped(item) for item in value] if isinstance(value, list) else value


def differences(old: object, new: object, where: str = "") -> Iterator[str]:
    """Where two values differ, by path."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key, "(absent)"), new.get(key, "(absent)"), f"{where}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif json.dumps(old) != json.dumps(new):
        yield f"{where}: {json.dumps(old)[:300]} -> {json.dumps(new)[:300]}"


def cases() -> dict[str, Case]:
    """Every case, by name."""
    all_of_ours = "bleu,gleu,meteor,rouge,f1_score,function_call_match,argument_match,match"
    found = {
        "val": evaluation("--dataset", "datasets/val.jsonl"),
        "val, every evaluator": evaluation("--dataset", "datasets/val.jsonl", "--evaluators", all_of_ours),
        "val, with policies": evaluation(
            "--dataset", "datasets/val.jsonl", "--evaluators", "function_call_match,argument_match",
            "--set", "argument_match.ignore_case=true", "--set", "function_call_match.validate_schema=true",
            "--set", "argument_match.int_equals_float=true",
        ),
        "val, repeated": evaluation("--dataset", "datasets/val.jsonl", "--repeat", "3", "--limit", "40"),
    }  # fmt: skip
    if (glaive := SHARED / "glaive" / "glaive_v2_sample.json").exists():
        found["glaive"] = evaluation("--dataset", "datasets/converted.jsonl", data=str(glaive))
        found["recorded scores"] = rescored()
        found["recorded scores, compat"] = rescored("--compat")
        for published in sorted((SHARED / "bfcl_runs").iterdir()):
            for mode in ("bfcl", "strict"):
                found[f"bfcl {published.name} {mode}"] = bfcl_scores(published, "--compat", mode)
            for category in ("simple_python", "live_multiple", "multi_turn_base", "multi_turn_miss_func"):
                found[f"bfcl {published.name} {category}"] = bfcl_evaluation(published, category)
    return found


def main() -> int:
    """Run every case with both checkouts, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--python-old")
    parser.add_argument("--python-new")
    parser.add_argument("--bfcl", help="the folder of a copy of BFCL's data")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    given = parser.parse_args()
    old, new = (
        Side(checkout.resolve(), python or _python(checkout.resolve()), given.bfcl)
        for checkout, python in ((given.old, given.python_old), (given.new, given.python_new))
    )
    differing = 0
    for name, case in cases().items():
        if given.only not in name:
            continue
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            found = list(differences(case(old, Path(one)), case(new, Path(other))))
        print(f"{name}: {len(found)} differences", flush=True)
        print(*(f"    {line}" for line in found[:MOST_SHOWN]), sep="\n", end="\n" if found else "")
        differing += bool(found)
    return 1 if differing else 0


def _python(checkout: Path) -> str:
    own = checkout / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


if __name__ == "__main__":
    sys.exit(main())
