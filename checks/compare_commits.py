"""Run two checkouts on the same data and print every difference of rows, metrics, faults, verdicts and replays.

    python checks/compare_commits.py OLD [NEW]            # checkouts; OLD/.venv, NEW/.venv or this python run them
    python checks/compare_commits.py OLD NEW --python-old P --python-new P --bfcl COPY
    python checks/compare_commits.py OLD --ignore-wording # codes, paths, values and numbers, but not sentences

Each case runs once per checkout, in a folder of its own. Values that differ between any two runs (latency, ids, times)
are dropped. The exit code is 1 if anything else differs. `RENAMED` lists commands and modules that moved.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from tests.source_path import source_path  # noqa: E402 - found through the line above

SHARED = Path(os.environ.get("TUNECHECK_TEST_DATA", ROOT.parent / "shared" / "data"))

DROPPED = re.compile(
    r"(.*[._])?(latency_ms|request_id|format_version|seconds|tokens_per_second|created|started|finished|run_id|run_dir)"
)
"""Keys whose values differ between any two runs, or say only which version wrote a file."""

SENTENCES = re.compile(r"(.*[._])?(reason|reasons|reasoning|message|evidence|text|remark|note|notes|title)")
"""Keys whose values are sentences of ours, outside `DATA`."""

DATA = re.compile(
    r"inputs\..*|outputs\.(text|response|tool_calls|reasoning|messages)|expected|actual|arguments|calls?|logged|ours"
)
"""Keys whose values come from the data or a model: compared whole, sentences included."""

MOST_SHOWN = 12

TOLERANCE = 1e-12
"""Relative difference up to which two decimal numbers are equal: sums may be added up in another order."""


@dataclass(frozen=True)
class Renamed:
    """A command line or module that has another name in the checkouts in which the path `since` exists."""

    old: str
    new: str
    since: str


RENAMED = (
    Renamed("-m tunecheck memory replay", "checks/goodai_replay.py", since="checks/goodai_replay.py"),
    Renamed("-m tunecheck memory rescore", "checks/goodai_rescore.py", since="checks/goodai_rescore.py"),
    Renamed("-m tunecheck datasets check", "-m tunecheck check", since="src/tunecheck/cli/_check.py"),
    Renamed(
        "-m tunecheck datasets convert glaive",
        "-m tunecheck datasets convert --from glaive",
        since="src/tunecheck/cli/_check.py",
    ),
    Renamed("tunecheck.azure", "tunecheck_azure", since="src/tunecheck_azure"),
    Renamed("tunecheck.memory", "tunecheck_memory", since="src/tunecheck_memory"),
)


@dataclass(frozen=True)
class Side:
    """A checkout and the python that runs it."""

    checkout: Path
    python: str
    bfcl: str | None

    def run(self, folder: Path, *arguments: str) -> str:
        """Run `tunecheck …`, or what it is called in this checkout, and return what it printed."""
        return self._run(folder, "-m", "tunecheck", *arguments)

    def run_code(self, folder: Path, code: str) -> str:
        """Run Python code, with the names that its modules have in this checkout, and return what it printed."""
        for renamed in self._renamed():
            code = re.sub(rf"\b{re.escape(renamed.old)}\b", renamed.new, code)
        return self._run(folder, "-c", code)

    def _run(self, folder: Path, *words: str) -> str:
        environment = {**os.environ, "PYTHONPATH": source_path(self.checkout), "COLUMNS": "120"}
        if self.bfcl:
            environment["TUNECHECK_BFCL"] = self.bfcl
        command = [self.python, *self._in_this_checkout(words)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 3):
            said = done.stderr.strip() or done.stdout.strip()
            raise RuntimeError(f"{self.checkout}: {' '.join(command[1:])[:300]}: {said[-2000:]}")
        return done.stdout

    def _in_this_checkout(self, words: tuple[str, ...]) -> list[str]:
        for renamed in self._renamed():
            old, new = renamed.old.split(), renamed.new.split()
            if list(words[: len(old)]) == old:
                first = str(self.checkout / new[0]) if new[0].endswith(".py") else new[0]
                return [first, *new[1:], *words[len(old) :]]
        return list(words)

    def _renamed(self) -> Iterator[Renamed]:
        return (renamed for renamed in RENAMED if (self.checkout / renamed.since).exists())


Case = Callable[[Side, Path], dict[str, object]]
"""Runs one side in a folder and returns what must be equal, by name."""


def evaluation(*arguments: str, data: str | None = None) -> Case:
    """`tunecheck evaluate` over a data set: its rows and its metrics."""

    def run(side: Side, folder: Path) -> dict[str, object]:
        _copy_workspace(folder)
        if data is not None:
            side.run(folder, "datasets", "convert", "glaive", data, "--out", "datasets/converted.jsonl")
        side.run(folder, "evaluate", "--name", "one", "--seed", "7", "--quiet", *arguments)
        return written(next((folder / "eval_results").glob("one-*")))

    return run


def comparison(side: Side, folder: Path) -> dict[str, object]:
    """`tunecheck compare` and `select` of two simulated runs of the shipped data set."""
    _copy_workspace(folder)
    for name, seed in (("one", "7"), ("other", "8")):
        side.run(folder, "evaluate", "--dataset", "datasets/val.jsonl", "--name", name, "--seed", seed, "--quiet")
    runs = [next((folder / "eval_results").glob(f"{name}-*")) for name in ("one", "other")]
    printed = side.run(folder, "compare", *(run.name for run in runs), "--allow-simulated", "--json")
    for run, name in zip(runs, ("ONE", "OTHER"), strict=True):
        printed = printed.replace(run.name, name)
    return {"comparison": without_dropped(json.loads(printed))}


def azure_evaluation(side: Side, folder: Path) -> dict[str, object]:
    """The drop-in's `evaluate()` over the shipped data set: rows and metrics."""
    _copy_workspace(folder)
    printed = side.run_code(
        folder,
        "import json\n"
        "from tunecheck.azure import evaluate, BleuScoreEvaluator, F1ScoreEvaluator, RougeScoreEvaluator, RougeType\n"
        "rows = [{'response': f'the {i} cats sat on mats', 'ground_truth': f'{i} cats sit'} for i in range(40)]\n"
        "open('rows.jsonl', 'w').write('\\n'.join(map(json.dumps, rows)))\n"
        "evaluators = {'bleu': BleuScoreEvaluator(), 'f1': F1ScoreEvaluator(),\n"
        "              'rouge': RougeScoreEvaluator(rouge_type=RougeType.ROUGE_L),\n"
        "              'own': lambda response: len(response)}\n"
        "result = evaluate(data='rows.jsonl', evaluators=evaluators)\n"
        "print(); print(json.dumps({'rows': result['rows'], 'metrics': result['metrics']}))\n",
    )
    found: dict[str, object] = json.loads(printed.splitlines()[-1])
    return {name: without_dropped(value) for name, value in found.items()}


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
        options = ("--dataset", f"bfcl:{category}", "--endpoint", "replayed.yaml", "--name", "one", "--quiet")
        side.run(folder, "evaluate", *options)
        return written(next((folder / "eval_results").glob("one-*")))

    return run


def findings(command: str, dataset: str) -> Case:
    """`tunecheck check` or `audit` of a data set: every finding."""

    def run(side: Side, folder: Path) -> dict[str, object]:
        return {command: without_dropped(json.loads(side.run(folder, "datasets", command, dataset, "--json")))}

    return run


def authored(side: Side, folder: Path) -> dict[str, object]:
    """`tunecheck datasets author` about two built-in services: the rows, and what an audit finds in them."""
    _copy_workspace(folder)
    side.run(
        folder, "datasets", "author", "made", "--simulator", "TicketAPI", "--simulator", "TravelAPI", "--tasks", "30"
    )
    audited = json.loads(side.run(folder, "datasets", "audit", "datasets/made.jsonl", "--json"))
    return {"rows": lines_of(folder / "datasets" / "made.jsonl"), "audit": without_dropped(audited)}


def rescored(*arguments: str) -> Case:
    """`tunecheck memory rescore` over recorded tests."""

    def run(side: Side, folder: Path) -> dict[str, object]:
        recorded = SHARED / "ltm" / "recorded_scores.jsonl"
        side.run(folder, "memory", "rescore", str(recorded), "--out", "scores.jsonl", *arguments)
        return {"scores": lines_of(folder / "scores.jsonl")}

    return run


def replayed(run_folder: Path) -> Case:
    """`tunecheck memory replay` of a published run."""

    def run(side: Side, folder: Path) -> dict[str, object]:
        return {"replay": json.loads(side.run(folder, "memory", "replay", str(run_folder), *_memory_texts(), "--json"))}

    return run


def remembered(side: Side, folder: Path) -> dict[str, object]:
    """`tunecheck memory run` with the simulated endpoint: rows, metrics and the files of the GoodAI benchmark."""
    _copy_workspace(folder)
    configuration = SHARED / "ltm" / "configurations" / "benchmark-v3-1k.yml"
    definitions = SHARED / "ltm" / "tests" / "Benchmark 3 - 1k" / "definitions"
    options = ("-c", str(configuration), "--reuse", "--definitions", str(definitions), *_memory_texts())
    side.run(folder, "memory", "run", *options, "--endpoint", "simulated", "--unjudged", "--name", "one", "--seed", "7")
    made = next((folder / "eval_results").glob("one-*"))
    results = {name: content for name, content in files_of(made / "memory") if "/results/" in name}
    return {**written(made), **results}


def _copy_workspace(folder: Path) -> None:
    for name in ("datasets", "endpoints"):
        shutil.copytree(ROOT / name, folder / name)


def _memory_texts() -> tuple[str, ...]:
    texts = SHARED / "ltm"
    return ("--filler", str(texts / "trivia" / "trivia.json"), "--wording", str(texts / "wording.yml"))


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
    """Return the value without the keys that differ between any two runs."""
    if isinstance(value, Mapping):
        return {key: without_dropped(item) for key, item in value.items() if not DROPPED.fullmatch(key)}
    return [without_dropped(item) for item in value] if isinstance(value, list) else value


def without_sentences(value: object) -> object:
    """Return the value without sentences of ours; what comes from the data or a model stays."""
    if isinstance(value, Mapping):
        return {
            key: item if DATA.fullmatch(key) else without_sentences(item)
            for key, item in value.items()
            if DATA.fullmatch(key) or not SENTENCES.fullmatch(key)
        }
    return [without_sentences(item) for item in value] if isinstance(value, list) else value


def differences(old: object, new: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield where two values differ, as a path, and both values there."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key, "(absent)"), new.get(key, "(absent)"), f"{where}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif isinstance(old, list) and isinstance(new, list):
        gone, added = ([item for item in one if item not in other] for one, other in ((old, new), (new, old)))
        yield from ((f"{where}[only old]", json.dumps(item)[:300]) for item in gone)
        yield from ((f"{where}[only new]", json.dumps(item)[:300]) for item in added)
        if not gone and not added:
            yield where, f"{len(old)} items -> {len(new)} items"
    elif isinstance(old, float) and isinstance(new, float) and math.isclose(old, new, rel_tol=TOLERANCE):
        return
    elif json.dumps(old) != json.dumps(new):
        yield where, f"{json.dumps(old)[:300]} -> {json.dumps(new)[:300]}"


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
        "val, compared": comparison,
        "azure": azure_evaluation,
        "authored": authored,
        "bfcl check": findings("check", "bfcl:multi_turn_base"),
        "bfcl audit": findings("audit", "bfcl:multi_turn_base"),
    }  # fmt: skip
    return found | (shared_cases() if SHARED.is_dir() else {})


def shared_cases() -> dict[str, Case]:
    """The cases that need the shared data."""
    glaive = str(SHARED / "glaive" / "glaive_v2_sample.json")
    found = {
        "glaive": evaluation(
            "--dataset", "datasets/converted.jsonl", "--evaluators", "match,bleu,gleu,meteor,rouge", data=glaive
        ),
        "memory": remembered,
        "recorded scores": rescored(),
        "recorded scores, compat": rescored("--compat"),
    }
    for recorded in json.loads((SHARED / "ltm" / "replayable_runs.json").read_text("utf-8")):
        name = f"{recorded['bench']}, {recorded['agent']}"
        found[f"replay {name}"] = replayed(SHARED / "ltm" / "tests" / recorded["bench"] / "results" / recorded["agent"])
    for published in sorted((SHARED / "bfcl_runs").iterdir()):
        for mode in ("bfcl", "strict"):
            found[f"bfcl {published.name} {mode}"] = bfcl_scores(published, "--compat", mode)
        for category in ("simple_python", "live_multiple", "multi_turn_base", "multi_turn_miss_func"):
            found[f"bfcl {published.name} {category}"] = bfcl_evaluation(published, category)
    return found


def compare(case: Case, old: Side, new: Side, *, ignore_wording: bool) -> list[tuple[str, str]]:
    """Run a case with both checkouts and return the differences."""
    prepared = without_sentences if ignore_wording else without_dropped
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        try:
            return list(differences(prepared(case(old, Path(one))), prepared(case(new, Path(other)))))
        except RuntimeError as error:
            return [("(failed)", str(error))]


def show(name: str, found: list[tuple[str, str]]) -> None:
    """Print the differences of a case: how many by place, in how many rows, and the first ones whole."""
    rows = {row.group() for where, _ in found if (row := re.match(r".*?\[\d+\]", where))}
    print(f"{name}: {len(found)} differences" + (f" in {len(rows)} rows" if rows else ""), flush=True)
    places = Counter(re.sub(r"\[\d+\]", "[]", where) for where, _ in found)
    for place, count in places.most_common(MOST_SHOWN):
        print(f"    {count:6} {place}")
    for where, values in found[:MOST_SHOWN]:
        print(f"    {where}: {values}")


def main() -> int:
    """Run every case with both checkouts, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--python-old")
    parser.add_argument("--python-new")
    parser.add_argument(
        "--bfcl", help="a folder with BFCL's data (default: the copy that the tests made)", default=_bfcl()
    )
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--ignore-wording", action="store_true", help="compare everything but sentences")
    given = parser.parse_args()
    old, new = (
        Side(checkout.resolve(), python or _python(checkout.resolve()), given.bfcl)
        for checkout, python in ((given.old, given.python_old), (given.new, given.python_new))
    )
    differing = 0
    for name, case in cases().items():
        if given.only in name:
            found = compare(case, old, new, ignore_wording=given.ignore_wording)
            show(name, found)
            differing += bool(found)
    return 1 if differing else 0


def _bfcl() -> str | None:
    cache = Path(os.environ.get("TUNECHECK_TEST_CACHE", Path.home() / ".cache" / "tunecheck-tests"))
    return next(map(str, cache.glob("bfcl-eval-*/copy")), None)


def _python(checkout: Path) -> str:
    own = checkout / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


if __name__ == "__main__":
    sys.exit(main())
