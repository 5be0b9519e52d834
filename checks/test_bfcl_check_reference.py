"""Results that nobody published, judged by BFCL's own checker and by ours: the same verdicts and error types."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from checks.bfcl_verdicts import judged_by_the_reference
from tests.bfcl_check_parts import (
    CONVERSATIONS,
    Row,
    as_text,
    as_tools,
    check_conversation,
    entries,
    parameter_names,
    plain,
    read_call,
    services,
)

from tunecheck import read_calls
from tunecheck_bfcl._call_check import check_single_turn
from tunecheck_bfcl._data.files import CATEGORIES
from tunecheck_bfcl._decoding import Names
from tunecheck_bfcl._scoring import CheckRow

QUESTIONS = [name for name, category in CATEGORIES.items() if not category.multi_turn]

ODD_VALUES: tuple[Any, ...] = (
    None,
    "",
    0,
    1,
    True,
    [],
    {},
    "x",
    1.5,
    [1],
    {"a": 1},
    [{}],
    -1,
    [[1]],
    " ",
    "_-",
    "it's",
)

PIECES = (
    *("(", ")", "[", "]", "{", "}", ",", ";", '"', "'", "=", " ", "\n", ".", "->", "=>", "<", ">", "!", "?", ":", "\\"),
    *("new ", "null", "int[]", "class ", "return ", "await ", "if ", "new Foo<>()", "{{ add(1); }}", "(String) ", "é"),
    *("/* x */", "// x\n", "'c'", "Foo.class", "1_000", "10n", "{...a}", "a = b", "f(a=1)", "new int[]{1}", "x => x"),
)
"""What a model may write too much of. No backtick: where it is not closed, the newer grammar reads it otherwise."""


@pytest.mark.parametrize("seed", [1, 2])
def test_answers_to_single_questions_have_the_references_verdicts(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    rows = [(name, row) for name in QUESTIONS for row in entries(name).values() if row["functions"]]
    cases = [_question(chance, *chance.choice(rows)) for _ in range(10_000)]
    for case, expected in zip(cases, judged_by_the_reference(cases, tmp_path), strict=True):
        row = entries(case["category"])[case["id"]]
        names: Names = "underscored" if case["mode"] == "tools" else "dotted"
        verdict = check_single_turn(row, case["result"], compat=True, mode=case["mode"], names=names)
        assert plain(verdict) == expected, (case["id"], case["mode"], case["result"], verdict)


UNDECODED = (
    *("ast_decoder:decoder_failed", "ast_decoder:decoder_wrong_output_format"),
    *("relevance_error:decoder_failed", "checker_crash"),
)


@pytest.mark.parametrize("seed", [1, 2])
def test_calls_that_are_read_from_text_first_have_the_references_verdicts(seed: int, tmp_path: Path) -> None:
    """Where it can read the text.

    What differs: bare calls of functions that no tool is, dots as underscores, and definitions that do not say that
    they are Java's or JavaScript's.
    """
    chance = random.Random(seed)
    rows = [(name, row) for name in QUESTIONS for row in entries(name).values() if row["functions"]]
    cases = [_question(chance, *chance.choice(rows)) for _ in range(10_000)]
    cases = [case for case in cases if case["mode"] == "text"]
    judged = [*zip(cases, judged_by_the_reference(cases, tmp_path), strict=True)]
    judged = [(case, expected) for case, expected in judged if expected[1] not in UNDECODED]
    differ = []
    for case, (valid, error) in judged:
        row = entries(case["category"])[case["id"]]
        reading = read_calls(case["result"], tools=row["functions"])
        verdict = check_single_turn(row, [{call.name: call.arguments} for call in reading.calls], compat=True)
        if verdict.valid != valid:
            differ.append((case["id"], case["result"], error, verdict.error_type, reading.problem))
    print(f"{len(judged) - len(differ)} of {len(judged)}", *differ[:40], sep="\n")
    assert len(differ) <= 0.015 * len(judged)


@pytest.mark.parametrize("seed", [1, 2])
def test_java_and_javascript_that_is_hardly_any_has_the_references_verdicts(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    rows = [(name, row) for name in ("simple_java", "simple_javascript") for row in entries(name).values()]
    cases = []
    for _ in range(5_000):
        category, row = chance.choice(rows)
        truth: Any = row["ground_truth"]
        written = _written([_called(chance, answer, row, "text") for answer in truth], row)
        case = {"id": row["id"], "category": category, "mode": "text", "function": row["functions"], "answer": truth}
        cases.append({**case, "result": _mistyped(chance, written)})
    for case, expected in zip(cases, judged_by_the_reference(cases, tmp_path), strict=True):
        row = entries(case["category"])[case["id"]]
        verdict = check_single_turn(row, case["result"], compat=True, mode="text", names="dotted")
        assert plain(verdict) == expected, (case["id"], case["result"], verdict)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_conversations_have_the_references_verdicts(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    # Not the fifth category: its ground truth holds calls that fail, and an error's wording is ours.
    names = [name for name in CONVERSATIONS if name != "multi_turn_composite"]
    rows = [(name, row) for name in names for row in entries(name).values()]
    cases = [_conversation(chance, *chance.choice(rows)) for _ in range(3_000)]
    for case, expected in zip(cases, judged_by_the_reference(cases, tmp_path), strict=True):
        row = entries(case["category"])[case["id"]]
        mode = case["mode"]
        verdict = check_conversation(row, case["result"], compat=True, services=services(), mode=mode, model=mode)
        assert plain(verdict) == expected, (case["id"], case["mode"], case["result"], verdict)


# -- single questions -------------------------------------------------------------------------------------------------


def _question(chance: random.Random, category: str, row: CheckRow) -> Row:
    mode = chance.choice(["tools", "tools", "text"])
    functions: Any = row["functions"]
    truth: Any = row["ground_truth"] or [{functions[0]["name"]: {}}]
    calls = [_called(chance, answer, row, mode) for answer in truth]
    if chance.random() < 0.1:
        calls = chance.choice([calls + calls[:1], calls[1:], calls[::-1]])
    result: Any = as_tools(calls) if mode == "tools" else _written(calls, row)
    if chance.random() < 0.06:
        result = _damaged(chance, result)
    return {
        "id": row["id"],
        "category": category,
        "mode": mode,
        "function": functions,
        "answer": row["ground_truth"],
        "result": result,
    }


def _called(chance: random.Random, answer: Mapping[str, Any], row: CheckRow, mode: str) -> tuple[str, Row]:
    ((name, arguments),) = answer.items()
    given: Row = {}
    for parameter, options in arguments.items():
        written = [option for option in options if option != ""]
        if not written or ("" in options and chance.random() < 0.4):
            continue
        value = _concrete(chance, chance.choice(written))
        if row["language"] != "python":
            value = _source(chance, value, java=row["language"] == "java")
        given[parameter] = _changed(chance, value) if chance.random() < 0.12 else value
    if chance.random() < 0.05:
        given[chance.choice(["unknown", *arguments])] = chance.choice(ODD_VALUES)
    if given and chance.random() < 0.05:
        given.pop(chance.choice(list(given)))
    if (mode == "tools") != (chance.random() < 0.02):
        name = name.replace(".", "_")
    return name, given


def _concrete(chance: random.Random, value: Any) -> Any:
    """The value of an answer, one of the alternatives for each key of an object in it."""
    if isinstance(value, list):
        return [_concrete(chance, each) for each in value]
    if not isinstance(value, dict):
        return value
    optional = {key for key, each in value.items() if isinstance(each, list) and "" in each}
    kept = {key: each for key, each in value.items() if key not in optional or chance.random() < 0.5}
    return {
        key: _concrete(chance, chance.choice(each)) if isinstance(each, list) and each else each
        for key, each in kept.items()
    }


def _source(chance: random.Random, value: Any, *, java: bool) -> str:
    """The value as source text, in one of the ways in which models write it."""
    if isinstance(value, str):
        return chance.choice([value, value, f'"{value}"'])
    if isinstance(value, list):
        items = ", ".join(json.dumps(each) for each in value)
        if not java:
            return f"[{items}]"
        added = " ".join(f"add({json.dumps(each)});" for each in value)
        block = f"new ArrayList<String>() {{{{ {added} }}}}"
        return chance.choice([f"new ArrayList<>(Arrays.asList({items}))", f"new String[]{{{items}}}", block])
    if isinstance(value, dict) and java:
        puts = " ".join(f'put("{key}", {json.dumps(each)});' for key, each in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {json.dumps(each)}' for key, each in value.items())}}}"
    return json.dumps(value) + chance.choice(["", "L", "f"] if java else [""])


def _changed(chance: random.Random, value: Any) -> Any:
    """Nearly the same value, or another."""
    kinds: list[tuple[type, Callable[[Any], list[Any]]]] = [
        (bool, lambda each: [not each, str(each), int(each)]),
        (int, lambda each: [float(each), each + 1, str(each), bool(each), [each]]),
        (float, lambda each: [int(each), each + 0.5, str(each)]),
        (str, lambda each: [each.upper(), f"{each} ", f"-{each}", f"{each}x", "", [each], each.replace(" ", "_")]),
        (list, lambda each: [each[::-1], each[1:], each + each[:1], [], str(each), [str(one) for one in each]]),
        (dict, lambda each: [{**each, "zz": 1}, dict(list(each.items())[1:]), str(each)]),
    ]
    for kind, near in kinds:
        if isinstance(value, kind) and chance.random() < 0.6:
            return chance.choice(near(value))
    return chance.choice(ODD_VALUES)


def _written(calls: list[tuple[str, Row]], row: CheckRow) -> str:
    if row["language"] == "python":
        return as_text(calls)
    return f"[{', '.join(f'{name}({_assigned(given)})' for name, given in calls)}]"


def _assigned(given: Row) -> str:
    return ", ".join(f"{key}={_expression(value)}" for key, value in given.items())


def _expression(value: Any) -> str:
    plainly = isinstance(value, str) and value.startswith(("new ", "[", "{"))
    return value if plainly else json.dumps(value)


def _mistyped(chance: random.Random, text: str) -> str:
    """The text with a few characters left out, or words and signs of the languages put in."""
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice(["", *PIECES]) + text[place + chance.choice([0, 0, 1, 2, 5]) :]
    return text


def _damaged(chance: random.Random, result: Any) -> Any:
    if isinstance(result, str):
        wrapped = [f"`{result}`", f"```python\n{result}\n```", f"{result} ok", result[1:-1], result[:-3]]
        return chance.choice([*wrapped, "", "Error during inference: x", "f(x={})", "I cannot help."])
    broken = [[{"f": text}] for text in ("{", "null", "[1]", "", '"x"', '{"a": NaN}')]
    odd: list[Any] = [None, "", "Error during inference: x", "[f(a=1)]", {}, 5, [result], [{}], [None], [5], ["x"]]
    return chance.choice([*broken, *odd, [*result, {"f": "{}", "g": "{}"}]])


# -- conversations ----------------------------------------------------------------------------------------------------


def _conversation(chance: random.Random, category: str, row: CheckRow) -> Row:
    truth: Any = row["ground_truth"]
    turns = [[[call] for text in turn if (call := read_call(text))] for turn in truth]
    for _ in range(chance.choice([0, 0, 1, 1, 2, 4])):
        _disturb(chance, chance.choice(turns), row)
    mode = chance.choice(["tools", "tools", "text"])
    write: Callable[[Any], Any] = as_tools if mode == "tools" else as_text
    result: Any = [[*map(write, turn), *chance.choice([[], [write([])], ["Done."]])] for turn in turns]
    if chance.random() < 0.08:
        result = _malformed(chance, result)
    keys = ("initial_config", "involved_classes")
    entry = {"id": row["id"], **{key: row[key] for key in keys}}
    given = {"id": row["id"], "category": category, "mode": mode, "entry": entry, "answer": truth, "result": result}
    return json.loads(json.dumps(given))  # type: ignore[no-any-return]


def _disturb(chance: random.Random, turn: list[list[tuple[str, Row]]], row: CheckRow) -> None:
    """Leave a step out, put one in, change their order, or change a call."""
    kind = chance.randrange(5)
    if kind == 0 and turn:
        turn.pop(chance.randrange(len(turn)))
    elif kind == 1:
        turn.insert(chance.randint(0, len(turn)), [_other_call(chance, row)])
    elif kind == 2:
        chance.shuffle(turn)
    elif kind == 3 and chance.random() < 0.3:
        turn.clear()
    elif turn:
        step = chance.choice(turn)
        step[0] = _changed_call(chance, *step[0])


def _changed_call(chance: random.Random, name: str, given: Row) -> tuple[str, Row]:
    given = dict(given)
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice([f"{name}x", f"functions.{name}", f"{name}<|c|>", name.upper()]), given
    if kind == 1:
        given[chance.choice(["zz", "a b", "class", "0"])] = 1
    elif given:
        key = chance.choice(list(given))
        value = given.pop(key)
        texts = [f"{value} (x)", f"comment({value})", f"{value} ", str(value).upper(), None, [value]]
        if kind == 2:
            given[key] = chance.choice(texts) if isinstance(value, str) else chance.choice([str(value), None, True])
    return name, given


def _other_call(chance: random.Random, row: CheckRow) -> tuple[str, Row]:
    """A call that changes little: those of calculations may take the reference minutes."""
    name = chance.choice(["ls", "pwd", "get_account_info", "displayCarStatus", "get_user_tickets", "list_all_airports"])
    return name, {each: chance.choice([1, "x", True, "a (b)"]) for each in parameter_names()[name]}


def _malformed(chance: random.Random, result: list[list[Any]]) -> Any:
    if chance.random() < 0.4:
        return chance.choice(["Error during inference: x", None, {}, 5, [], result[:-1], [*result, []]])
    turns: list[Any] = [list(turn) for turn in result]
    at = chance.randrange(len(turns))
    odd: list[Any] = [
        None,
        5,
        {"ls": "{}"},
        [{"ls": "{}"}, "x"],
        [],
        "",
        {},
        "[ls()",
        "`ls()`",
        "ls(a=true)",
        'ls("x")',
    ]
    odd += [[{"ls": "{"}], [{"ls": {}}], [{"ls": "{}", "pwd": "{}"}], [{"ls": "null"}], [{"ls": '{"a": NaN}'}]]
    odd += ["ls(a=not True)", "cd(folder={})", "echo(content=pwd(x=1))"]
    if chance.random() < 0.5 or not turns[at]:
        turns[at] = chance.choice(["text", {}, {"a": "b"}, [{"ls": "{}"}], "[ls()]", *([each] for each in odd)])
    else:
        turns[at][chance.randrange(len(turns[at]))] = chance.choice(odd)
    return turns
