"""`kill -9` on a judged run: no verdict that was recorded is bought again, none is lost, the results are the same."""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import subprocess
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import command, environment, write_lines
from tests.fault_server import FaultServer, Request, Step, answer, busy, failing, filtered
from tests.pipeline_parts import strict_json, strict_lines

ROWS = 200
SAMPLES = 2
RESULTS = ("eval_results.jsonl", "eval_results.csv", "metrics.json")

QUALITY = """\
---
model: {api: chat, parameters: {temperature: 0.7, max_tokens: 300}}
inputs: {response: {type: string}}
outputs:
  reason: {type: string}
  score: {type: integer, minimum: 1, maximum: 5}
---
system:
You judge quality.

user:
{{response}}
"""

PRICES = "models: {judge-model: {input_per_million: 0.15, output_per_million: 0.61}}\n"

JUDGE = ("--dataset", "rows.jsonl", "--response-column", "response", "--evaluators", "difference,quality",
         "--judge", "judge", "--set", f"quality.samples={SAMPLES}", "--prices", "prices.yaml", "--name", "judged",
         "--quiet")  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """Texts and calls, right and wrong; some rows twice, and words that the judge stumbles over."""
    words = {3: "muddled", 5: "wild", 11: "banned", 14: "busy"}
    made = []
    for number in range(ROWS):
        same = number - 100 if number >= 100 and number % 10 == 3 else number
        said = f"answer {same} {words.get(same % 17, 'plain')}"
        if same % 4 == 1:
            truth: Any = {"tool_uses": [{"recipient_name": "functions.book", "parameters": {"people": same}}]}
            response: Any = {"tool_uses": [{"recipient_name": "functions.book", "parameters": {"note": said}}]}
        else:
            truth, response = (said if same % 6 == 0 else f"truth {same}"), said
        made.append({"id": f"r{number}", "response": response, "ground_truth": truth})
    return made


class Judge(FaultServer):
    """A model that judges, each reply some milliseconds late; what it says depends on the question alone.

    A question that comes under several keys is judged in turn: the samples differ. The finish reason of each reply
    holds its key, so that records can be told apart. `strict`: it takes no JSON schema.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._turns: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.arrived: list[tuple[str, str]] = []
        """The key and the question of each request, in order, from the moment it came in."""
        super().__init__(self._plan_of)

    def __enter__(self) -> Judge:
        super().__enter__()
        return self

    async def _reply(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        question = question_of(request)
        self.arrived.append((request.key, question))
        turns = self._turns[question]
        turns.setdefault(request.key, len(turns))
        await asyncio.sleep((sum(question.encode()) + len(turns)) % 19 / 1000)
        return await super()._reply(request, writer)

    def _plan_of(self, request: Request, attempt: int) -> Step:
        question = question_of(request)
        if self._strict and '"json_schema"' in question:
            return failing(400, "response_format of type json_schema is not supported")
        if "banned" in question:
            return filtered()
        if "busy" in question and attempt == 0:
            return busy(retry_after="0.01")
        asked = json.loads(request.body)["messages"]
        made = judgement(json.dumps(asked), asked, self._turns[question][request.key])
        tokens = sum(len(message["content"]) for message in asked)
        return answer(
            {
                "choices": [{"finish_reason": request.key, "message": {"role": "assistant", "content": made}}],
                "usage": {"prompt_tokens": tokens, "completion_tokens": len(made) % 37},
            }
        )


def judgement(said: str, messages: list[dict[str, str]], turn: int) -> str:
    if "wild" in said or ("muddled" in said and len(messages) == 2):
        return f"That is hard to say, for {len(said)} reasons."
    grade = len(said) % 4
    if "You judge quality" in said:
        return json.dumps({"reason": f"grade {grade}", "score": 1 + grade + turn})
    listed = [{"where": "all", "expected": "a", "actual": "b", "kind": "wording"}] if grade else []
    return json.dumps({"reason": f"grade {grade}", "differences": listed, "score": 1 - grade / 4})


def question_of(request: Request) -> str:
    """What is asked, and in which form."""
    body = json.loads(request.body)
    return json.dumps([body["messages"], body.get("response_format")])


class Workspace:
    """A folder with data, judge and prompt, and the one run that is made in it."""

    def __init__(self, folder: Path, judge: Judge) -> None:
        self.folder = folder
        self.judge = judge
        write_lines(folder / "rows.jsonl", rows())
        (folder / "endpoints").mkdir()
        (folder / "prompty").mkdir()
        (folder / "prompty" / "quality.prompty").write_text(QUALITY)
        (folder / "prices.yaml").write_text(PRICES)
        (folder / "endpoints" / "judge.yaml").write_text(
            f"kind: openai\nurl: http://127.0.0.1:{judge.port}/v1\nmodel: judge-model\nretries: 2\n"
        )

    def begin(self) -> subprocess.Popen[bytes]:
        """Start the run, or take it up where it was left."""
        options = ("--resume", "last", "--quiet") if any(self.folder.glob("eval_results/*/run.json")) else JUDGE
        return subprocess.Popen(
            command("evaluate", *options),
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def finish(self) -> None:
        process = self.begin()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()

    @property
    def run(self) -> Path:
        (manifest,) = self.folder.glob("eval_results/*/run.json")
        return manifest.parent

    def journal_lines(self) -> list[bytes]:
        """The whole lines of the journal; a last one may be torn."""
        paths = self.folder.glob("eval_results/*/journal.jsonl")
        return [line for path in paths for line in path.read_bytes().split(b"\n")[:-1]]

    def bought(self) -> list[str]:
        """The keys of the calls that are recorded."""
        found = [strict_json(line) for line in self.journal_lines() if line.startswith(b'{"k":"call"')]
        return [record["out"]["finish_reason"] for record in found]

    def results(self) -> dict[str, bytes]:
        return {name: (self.run / name).read_bytes() for name in RESULTS}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A run that nothing happened to."""
    with Judge() as judge:
        made = Workspace(tmp_path_factory.mktemp("unbroken"), judge)
        made.finish()
    return made


class Killing:
    """A run that is killed again and again, and what must hold in the end."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.kills = 0
        self.recorded: dict[str, int] = {}
        """Calls that were recorded when the run was killed, and how many requests there had been by then."""
        self.cut_off: list[tuple[str, int]] = []
        """Calls that were under way when the run was killed, likewise."""

    def kill(self, rng: random.Random, *, by_time: bool) -> bool:
        """Let the run go on and kill it somewhere; False when it was finished before that."""
        before = len(self.workspace.journal_lines())
        process = self.workspace.begin()
        self._wait_for_lines(process, before + (1 if by_time else rng.randrange(1, 100)))
        time.sleep(rng.uniform(0.02, 0.1) if by_time else 0)
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
        assert not errors, errors.decode()
        if process.returncode == 0:
            return False
        self.kills += 1
        arrived = list(self.workspace.judge.arrived)
        bought = set(self.workspace.bought())
        for key in bought:
            self.recorded.setdefault(key, len(arrived))
        self.cut_off += [(key, len(arrived)) for key in {key for key, _ in arrived} - bought]
        return True

    def _wait_for_lines(self, process: subprocess.Popen[bytes], count: int) -> None:
        while process.poll() is None and len(self.workspace.journal_lines()) < count:
            time.sleep(0.001)

    def check(self) -> None:
        arrived = self.workspace.judge.arrived
        last = {key: position for position, (key, _) in enumerate(arrived)}
        again = [key for key, position in self.recorded.items() if last[key] >= position]
        assert not again, f"{len(again)} recorded calls were bought again"
        bought = set(self.workspace.bought())
        assert len(self.workspace.bought()) == len(bought), "a call was recorded twice"
        cut_off = [(key, position) for key, position in self.cut_off if key in bought]
        assert cut_off, "no call was under way at any kill"
        assert all(last[key] >= position for key, position in cut_off), "a call under way came again under another key"
        answered = {question for key, question in arrived if key in bought}
        keys = Counter(question for _, question in set(arrived))
        for question in answered:
            expected = SAMPLES if "You judge quality" in question else 1
            assert keys[question] == expected, f"{keys[question]} keys for {question}"


@pytest.mark.slow
def test_an_unbroken_run_is_what_was_meant(unbroken: Workspace) -> None:
    """Else the other tests would compare nothing with nothing."""
    written = strict_json((unbroken.run / "metrics.json").read_bytes())
    metrics = written["metrics"]
    assert written["rows"] == ROWS
    assert metrics["difference.scored_count"] + metrics["difference.error_count"] == ROWS
    assert metrics["quality.error_count"] == sum(n % 17 in (5, 11) for n in map(origin, range(ROWS)))
    found = strict_lines(unbroken.run / "eval_results.jsonl")
    errors = Counter(row["error.quality"]["type"] for row in found if "error.quality" in row)
    assert set(errors) == {"JudgementError", "ContentFilterError"}
    judged = [row["outputs.quality.quality_properties"] for row in found if "outputs.quality.quality" in row]
    assert {of["spread"] for of in judged} == {0.5}, "the samples of each row differ by one"
    skipped = [row for row in found if "no model was asked" in row.get("outputs.difference.difference_reason", "")]
    assert len(skipped) > ROWS / 10
    usage = written["usage"]
    assert usage["difference"]["calls"] + usage["quality"]["calls"] == len(unbroken.bought())
    assert usage["quality"]["cost"] is None, "attempts without an answer are estimated"
    assert usage["quality"]["counted_cost"] > 0
    assert len(unbroken.judge.arrived) > len(unbroken.bought()), "some were busy, some declined"


def _without_notes(written: bytes) -> bytes:
    """What one run found out about its service is no difference between results."""
    return re.sub(rb'\n  "notes": \[[^\]]*\]', b"", written)


def origin(number: int) -> int:
    return number - 100 if number >= 100 and number % 10 == 3 else number


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "by_time", "strict"),
    [(1, True, False), (2, False, False), (3, False, True)],
    ids=["by time", "by record", "while its format gives way"],
)
def test_a_judged_run_killed_at_five_points_ends_as_one_that_was_not(
    unbroken: Workspace, tmp_path: Path, seed: int, by_time: bool, strict: bool
) -> None:
    rng = random.Random(seed)
    with Judge(strict=strict) as judge:
        workspace = Workspace(tmp_path, judge)
        killing = Killing(workspace)
        while killing.kills < 5 and killing.kill(rng, by_time=by_time):
            pass
        workspace.finish()
    assert killing.kills == 5, "the run was finished before it was killed five times"
    killing.check()
    assert len(workspace.bought()) == len(unbroken.bought())
    expected = unbroken.results()
    told = [
        note for note in strict_json((workspace.run / "metrics.json").read_bytes())["notes"] if "model refuses" in note
    ]
    assert len(told) == strict, "what the service does not take is found out, and said, once"
    for name, found in workspace.results().items():
        assert _without_notes(found) == _without_notes(expected[name]), name
    assert not [path for path in workspace.run.iterdir() if path.suffix in (".tmp", ".partial")]


@pytest.mark.slow
def test_a_journal_torn_within_its_last_call_buys_that_one_again(unbroken: Workspace, tmp_path: Path) -> None:
    with Judge() as judge:
        workspace = Workspace(tmp_path, judge)
        workspace.finish()
        path = workspace.run / "journal.jsonl"
        whole = path.read_bytes()
        begin = whole.rindex(b'{"k":"call"')
        last = whole[begin : whole.index(b"\n", begin) + 1]
        key = strict_json(last)["out"]["finish_reason"]
        declined = {key for key, question in judge.arrived if "banned" in question}
        for cut in (len(last) // 2, len(last) - 1, len(last)):
            path.write_bytes(whole[:begin] + last[:cut])
            path.with_suffix(".synced").unlink()  # as before it ended: nothing says yet how many records there are
            manifest = strict_json((workspace.run / "run.json").read_bytes())
            kept = {name: value for name, value in manifest.items() if name not in ("records", "row_count")}
            (workspace.run / "run.json").write_text(json.dumps(kept | {"status": "running"}))
            asked = len(judge.arrived)
            workspace.finish()
            again = {key for key, _ in judge.arrived[asked:]} - declined
            assert again == (set() if cut == len(last) else {key})
            assert workspace.results() == unbroken.results()
