"""Hostile answers, judged in a process with limits that is watched: nothing is run, nothing hangs, nothing grows."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.bfcl.test_bfcl_check_defects import judged, wrong
from tests.bfcl_check_parts import Row, entries, lamp_row, right_result, steps

from tunecheck.episodes import Services
from tunecheck.simulators import Backend, Simulator

if TYPE_CHECKING:
    from collections.abc import Sequence


JUDGED_APART = """
import json, resource, sys

resource.setrlimit(resource.RLIMIT_CPU, (250, 250))
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

from tests.bfcl_check_parts import check_conversation
from tunecheck.episodes import Services
from tunecheck_bfcl._call_check import check_single_turn
from tunecheck.simulators import Backends

NAMES = "GorillaFileSystem MathAPI MessageAPI TicketAPI TradingBot TravelAPI TwitterAPI VehicleControlAPI".split()
CLASSES = {name: Backends().find(name) for name in NAMES}
for simulator in CLASSES.values():
    simulator.tool_definitions()  # compiles the annotations of its own operations

def judged(case):
    compat, mode = case["compat"], case["mode"]
    result = case["result"]
    if "involved_classes" not in case["row"]:
        return check_single_turn(case["row"], result, compat=compat, mode=mode)
    return check_conversation(case["row"], result, compat=compat, mode=mode, services=Services(CLASSES))

def peak():
    "The most memory so far in MB; that of `getrusage` may be the parent's, but it is there on every system."
    try:
        lines = open("/proc/self/status").read().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024

first, cases = json.load(sys.stdin)
for case in first:
    judged(case)  # loads what is loaded with the first of its kind
seen = set()
before = peak()
watching = True
sys.addaudithook(lambda event, arguments: seen.add(event) if watching else None)
verdicts = [judged(case) for case in cases]
watching = False
lines = [[verdict.valid, verdict.error_type, verdict.message] for verdict in verdicts]
print(json.dumps({"verdicts": lines, "events": sorted(seen), "grown_mb": peak() - before}))
"""


def judged_apart(first: Sequence[Row], cases: Sequence[Row], folder: Path) -> Any:
    """The cases' verdicts, audit events and growth, in a process with limits, which judges `first` before it looks."""
    done = subprocess.run(
        [sys.executable, "-c", JUDGED_APART],
        input=json.dumps([first, cases]),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(done.stdout)
    assert len(found["verdicts"]) == len(cases)
    return found


def cases_of(row: Row, *results: object, mode: str) -> list[Row]:
    return [
        {"row": row, "result": result, "mode": mode, "compat": compat} for result in results for compat in (True, False)
    ]


def question(language: str = "python", answer: object = 1, kind: str = "any") -> Row:
    parameters = {"type": "dict", "properties": {"x": {"type": kind}}, "required": ["x"]}
    functions = [{"name": "f", "parameters": parameters}]
    return {"check": "simple", "language": language, "functions": functions, "ground_truth": [{"f": {"x": [answer]}}]}


def conversation(simulator: str, *truth: str, **config: object) -> Row:
    columns = {"involved_classes": [simulator], "initial_config": {simulator: config} if config else {}}
    return {**lamp_row(*([text] for text in truth)), **columns}


def everywhere(payload: str) -> list[Row]:
    """The payload as a whole answer, a name, a key, a value and an argument, of a model and of the ground truth."""
    asked = [cases_of(question(), *in_text(payload, "f(x={})"), mode="text")]
    for language in ("java", "javascript"):
        asked.append(cases_of(question(language), *in_text(payload, "f(x={})"), mode="text"))
        asked.append(cases_of(question(language, kind="HashMap"), [{"f": {"x": payload}}], mode="tools"))
    asked.append(cases_of(question(), *in_data(payload, "f", "x"), mode="tools"))
    asked.append(cases_of(question(answer=payload), [{"f": {"x": payload}}], mode="tools"))
    files, numbers = conversation("GorillaFileSystem", "cd(folder='x')"), conversation("MathAPI", "add(a=1, b=2)")
    asked.append(cases_of(files, *([[step]] for step in in_text(payload, "cd(folder={})")), mode="text"))
    asked.append(cases_of(numbers, *([[step]] for step in in_text(payload, "add(a={}, b=1)")), mode="text"))
    asked.append(cases_of(files, *([[step]] for step in in_data(payload, "cd", "folder")), mode="tools"))
    for truth in (payload, f"cd(folder={payload})", f"cd({payload})", f"echo(content={payload!r})"):
        asked.append(cases_of(conversation("GorillaFileSystem", truth), [steps(("pwd", {}))], mode="tools"))
    return [case for cases in asked for case in cases]


def in_text(payload: str, call: str) -> list[str]:
    return [
        payload,
        f"[{payload}]",
        f"[{call.format(payload)}]",
        f"[{call.format(f'1 + {payload}')}]",
        f"[f({payload})]",
    ]


def in_data(payload: str, name: str, key: str) -> list[list[Row]]:
    smuggled = f"{key}={payload}, y"
    return [
        [{payload: "{}"}],
        [{f"{name}(), {payload}": "{}"}],
        [{name: payload}],
        [{name: json.dumps({key: payload})}],
        [{name: {smuggled: 1}}],
        [{name: {key: [{payload: payload}]}}],
    ]


PAYLOADS = [
    "__import__('os').system('touch CANARY')",
    "__import__('subprocess').run(['touch', 'CANARY'])",
    "open('CANARY', 'w')",
    'exec(\'open("CANARY", "w")\')',
    "eval('1')",
    "compile('1', '', 'eval')",
    "importlib.import_module('antigravity')",
    "().__class__.__bases__[0].__subclasses__()",
    "cd.__globals__['__builtins__']",
    "globals()",
    "lambda: open('CANARY', 'w')",
    "(lambda: open('CANARY', 'w'))()",
    "[open('CANARY', 'w') for _ in [1]]",
    "{open(n, 'w') for n in ['CANARY']}",
    "(x := open('CANARY', 'w'))",
    'f\'{open("CANARY", "w")}\'',
    "'%s' % open('CANARY', 'w')",
    "'{0.__class__}'.format(1)",
    "print(open('CANARY', 'w'))",
    "breakpoint()",
    'new java.io.FileWriter("CANARY")',
    'Runtime.getRuntime().exec("touch CANARY")',
    "`${require('fs').writeFileSync('CANARY', '')}`",
    "require('child_process').execSync('touch CANARY')",
    "'a', b=open('CANARY', 'w')",
    "**{'x': open('CANARY', 'w')}",
    "*[open('CANARY', 'w')]",
    "1); open('CANARY', 'w'); (1",
    "\\N{BULLET}",
    "10**10**10",
    "'a' * 10**10",
    "1 << 10**10",
    "not not not 1",
]


HARMLESS = {"builtins.id"}


def test_no_code_in_an_answer_or_a_ground_truth_is_run(tmp_path: Path) -> None:
    """The interpreter's own audit events: text is parsed at most, and that only to decode as the leaderboard does."""
    first = [case for payload in ("'x'", "open", "[1", "fly()", "'\\N{BULLET}'") for case in everywhere(payload)]
    cases = [case for payload in PAYLOADS for case in everywhere(payload)]
    found = judged_apart(first, [case for case in cases if not case["compat"]], tmp_path)
    assert set(found["events"]) <= HARMLESS
    found = judged_apart(first, cases, tmp_path)
    assert set(found["events"]) - HARMLESS == {"compile"}
    assert not list(tmp_path.iterdir())
    assert found["grown_mb"] < 150


LONG: dict[str, tuple[str, ...]] = {
    "brackets": ("[", "["),
    "round brackets": ("[f(x=", "("),
    "calls in calls": ("[f(x=", "g(x=", "1", ")", ")]"),
    "signs": ("[f(x=", "-", "1)]"),
    "nots": ("[f(x=", "not ", "1)]"),
    "sums": ("[f(x=", "1+", "1)]"),
    "lambdas": ("[f(x=", "lambda:", "1)]"),
    "conditions": ("[f(x=", "1 if 1 else ", "1)]"),
    "attributes": ("[f(x=a", ".a", ")]"),
    "dotted names": ("[a", ".a", "()]"),
    "subscripts": ("[f(x=a", "[0]", ")]"),
    "calls of calls": ("[f", "()", "]"),
    "comparisons": ("[f(x=", "1<", "1)]"),
    "f-strings": ("[f(x=f'", "{1}", "')]"),
    "f-strings in arguments of arguments": ("[f(x=g(f'", "{1}", "'))]"),
    "f-strings side by side": ("[f(x=", "f'{1}' ", ")]"),
    "formats of formats": ("[f(x=f'", "{1:{1}}", "')]"),
    "comprehensions": ("[f(x=[i for i in [0] ", "for j in i ", "])]"),
    "objects": ("[f(x=", "{1:", "1", "}", ")]"),
    "arguments": ("[f(a=1", ",a=1", ")]"),
    "a list": ("[f(x=[", "1,", "])]"),
    "calls": ("[", "f(),", "]"),
    "digits": ("[f(x=", "9", ")]"),
    "hexadecimal digits": ("[f(x=0x", "f", ")]"),
    "an exponent": ("[f(x=1e", "9", ")]"),
    "powers": ("[f(x=", "9**", "9)]"),
    "products": ("[f(x=", "9*", "9)]"),
    "repetitions": ("[f(x=[0]", "*9", ")]"),
    "sums of repetitions": ("[f(x=[0]*9999", "+[0]*9999", ")]"),
    "continued lines": ("[f(x=", "\\\n", "a-)]"),
    "backticks": ("`", "`"),
    "quotes": ("[f(x=", "'", ")]"),
    "odd escapes": ("[f(x='", "\\q", "')]"),
    "arrays of arrays": ("[f(x=new int[]", "{", ")]"),
    "lists of lists": ("[f(x=", "new ArrayList<>(Arrays.asList(", "1", "))", ")]"),
    "maps of maps": ("[f(x=", 'new HashMap<>() {{ put("a", ', "1", "); }}", ")]"),
    "objects of JavaScript": ("[f(x=", "{a: ", "1", "}", ")]"),
    "comments": ("[f(x=", "/*", ")]"),
    "a regular expression": ("[f(x=/", "(a+)+", "$/)]"),
    "arrows": ("[f(x=", "x=>", "...?)]"),
    "angles": ("[f(x=", "a<", ")]"),
    "loops without a body": ("[=while(1)", "->", "]"),
}
"""What costs a parser most: a beginning, what is repeated, and what follows: once, repeated, and once again."""


def long_texts(length: int) -> list[str]:
    texts = []
    for start, repeated, *more in LONG.values():
        middle, closing, end = (*more, "", "", "")[:3]
        texts.append(start + repeated * length + middle + closing * length + end)
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("length", [150, 300, 25_000])
def test_the_hardest_texts_are_judged_within_limits(length: int, tmp_path: Path) -> None:
    texts = long_texts(length)
    cases = [case for text in texts for case in cases_of(question(), text, mode="text")]
    for language in ("java", "javascript"):
        cases += [case for text in texts for case in cases_of(question(language), text, mode="text")]
        short = [[{"f": {"x": text[5:-2]}}] for text in texts]
        for kind in ("ArrayList", "HashMap", "dict", "array", "long"):
            cases += cases_of(question(language, kind=kind), *short, mode="tools")
    row = conversation("GorillaFileSystem", "pwd()")
    cases += [case for text in texts for case in cases_of(row, [[text]], mode="text")]
    found = judged_apart([], cases, tmp_path)
    assert found["grown_mb"] < 150
    assert not any(valid for valid, _, _ in found["verdicts"])


def test_a_formatted_text_of_a_million_characters_is_not_parsed(tmp_path: Path) -> None:
    """CPython's parser takes the square of its braces: a minute for this one."""
    parts = [LONG[name] for name in LONG if "format" in name or "f-string" in name]
    texts = [f"{start}{repeated * (900_000 // len(repeated))}{end}" for start, repeated, end in parts]
    cases = [case for text in texts for case in cases_of(question(), text, mode="text")]
    found = judged_apart([], cases, tmp_path)
    for _, error, message in found["verdicts"][::2]:
        assert error == "ast_decoder:decoder_failed"
        assert "the text with calls has an f-string" in message


CONTENTS = {"d": {"type": "directory", "contents": {}}, "f": {"type": "file", "content": "x"}}
DISK = conversation("GorillaFileSystem", "pwd()", root={"w": {"type": "directory", "contents": CONTENTS}})
NUMBERS = conversation("MathAPI", "add(a=1, b=2)")


def numbers(truth: str) -> Row:
    return conversation("MathAPI", truth)


def on_disk(name: str, *values: object) -> tuple[str, Row]:
    names = {"echo": ("content", "file_name"), "tail": ("file_name", "lines"), "grep": ("file_name", "pattern")}
    both = names.get(name, ("source", "destination") if len(values) == 2 else (f"{name}_name",))
    return name, dict(zip({"cd": ("folder",), "mkdir": ("dir_name",)}.get(name, both), values, strict=False))


LOOK_AROUND: list[tuple[str, Row]] = [("find", {}), ("du", {}), ("ls", {"a": True})]
DOUBLED = [on_disk("cp", "d", "e"), on_disk("mkdir", "b"), *(on_disk("mv", a, b) for a, b in ("db", "eb", "bd"))]
EVER_LONGER = [call for number in range(120) for call in (on_disk("mkdir", f"d{number}"), LOOK_AROUND[0])]
LONG_TEXT, LONG_NUMBER = "x" * 99_999, 10**400

WITHOUT_END: list[tuple[Row, list[tuple[str, Row]]]] = [
    (numbers("logarithm(value=10, base=2, precision=100000000)"), [("logarithm", {"value": 10, "base": 2})]),
    (numbers("square_root(number=2, precision=100000000)"), [("square_root", {"number": 2})]),
    (numbers("power(base=3, exponent=100000000)"), [("power", {"base": 3})]),
]
"""Conversations of which the ground truth is a calculation without end."""

TOO_MUCH: list[tuple[Row, list[tuple[str, Row]]]] = [
    (NUMBERS, [("logarithm", {"value": 10, "base": 2, "precision": 10**8})]),
    (NUMBERS, [("square_root", {"number": 2, "precision": 10**8}), ("power", {"base": 3, "exponent": 10**8})]),
    (NUMBERS, [("logarithm", {"value": LONG_NUMBER, "base": 1e-300, "precision": 999})]),
    (NUMBERS, [("multiply", {"a": "ab", "b": 10**10}), ("multiply", {"a": [1], "b": 10**10})]),
    (NUMBERS, [("mean", {"numbers": [1] * 300_000}), ("sum_values", {"numbers": [[0] * 9] * 9_999})]),
    (DISK, [on_disk("cp", "d", "d"), on_disk("mv", "d", "d"), *LOOK_AROUND]),
    (DISK, [on_disk("cp", ".", "d"), on_disk("cp", "..", "d"), on_disk("cp", "/", "d"), *LOOK_AROUND]),
    (DISK, [*DOUBLED * 60, *LOOK_AROUND]),
    (DISK, [*[on_disk("mkdir", "d"), on_disk("cd", "d")] * 3_000, *LOOK_AROUND]),
    (DISK, [on_disk("mkdir", f"d{number}") for number in range(25_000)]),
    (DISK, [*(on_disk("mkdir", f"{'n' * 990}{number}") for number in range(3_000)), *EVER_LONGER]),
    (DISK, [on_disk("tail", "f", 10**18), on_disk("grep", "f", "(a+)+" * 9_999)]),
    (DISK, [on_disk("echo", "x" * 3_000_000, "f"), on_disk("echo", {"k": ["x" * 9_999] * 99}, "f")] * 9),
    (DISK, [("pwd", {})] * 10_000),
    (DISK, [("fly", {"x": LONG_TEXT}), (LONG_TEXT, {}), ("cd", {LONG_TEXT: 1})] * 99),
    (conversation("TwitterAPI", "posting_get_login_status()"), [("post_tweet", {"content": LONG_TEXT})] * 99),
    (
        conversation("TicketAPI", "ticket_get_login_status()"),
        [("create_ticket", {"title": LONG_TEXT, "priority": LONG_NUMBER})],
    ),
    (conversation("TradingBot", "get_current_time()"), [("fund_account", {"amount": LONG_NUMBER})] * 99),
    (conversation("TravelAPI", "list_all_airports()"), [("set_budget_limit", {"budget_limit": LONG_NUMBER})] * 99),
    (conversation("VehicleControlAPI", "check_tire_pressure()"), [("fillFuelTank", {"fuelAmount": LONG_NUMBER})] * 99),
    (conversation("MessageAPI", "list_users()"), [("add_contact", {"user_name": LONG_TEXT})] * 99),
]
"""Calls of a model that would not end, or not fit, on simulators without bounds."""


@pytest.mark.slow
def test_the_hardest_calls_are_made_within_limits(tmp_path: Path) -> None:
    cases = [case for row, made in WITHOUT_END + TOO_MUCH for case in cases_of(row, [steps(*made)], mode="tools")]
    found = judged_apart([], cases, tmp_path)
    assert found["grown_mb"] < 150
    assert {error for _, error, _ in found["verdicts"][2 * len(WITHOUT_END) :]} <= {
        "multi_turn:instance_state_mismatch",
        "multi_turn:execution_response_mismatch",
        None,
    }


def test_a_calculation_without_end_in_the_ground_truth_makes_an_entry_that_nobody_can_pass(tmp_path: Path) -> None:
    cases = [case for row, made in WITHOUT_END for case in cases_of(row, [steps(*made)], mode="tools")]
    verdicts = judged_apart([], cases, tmp_path)["verdicts"]
    assert {(valid, error) for valid, error, _ in verdicts[1::2]} == {(None, "invalid_entry")}


def living() -> int:
    gc.collect()
    return sum(issubclass(type(each), (Simulator, Backend)) for each in gc.get_objects())


def test_nothing_is_kept_of_a_conversation_that_was_judged() -> None:
    rows = list(entries("multi_turn_base").values())[::4]
    cases = [(row, result) for row in rows for result in (right_result(row), wrong(row))]
    shared = Services()

    def judge_all() -> int:
        for row, result in cases:
            judged(row, result, services=shared)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    before = living()
    judge_all()
    tracemalloc.start()
    try:
        first = judge_all()
        last = max(judge_all() for _ in range(2))
    finally:
        tracemalloc.stop()
    assert last - first < 100_000  # the leaderboard's checker keeps 20 kB of each
    assert living() == before
