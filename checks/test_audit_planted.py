"""Errors of many kinds, planted one by one into the leaderboard's conversations: `datasets audit` finds them.

Half of the rows were looked at while the rules were tuned to what was missed; the other half was not.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.bfcl_reference import reference_wheel

from tunecheck.formats._reading import read_python_calls
from tunecheck_authoring import DialogueReader, RowCheck, audit, checked_rows
from tunecheck_bfcl._data.download import get_bfcl
from tunecheck_bfcl._data.loader import load_bfcl

Row = dict[str, Any]
Planter = Callable[[Row, random.Random], "Row | list[Row] | None"]

_QUOTED = re.compile(r"='([^'\\\\]{8,})'")


def _calls(row: Row) -> Iterator[tuple[int, int, str]]:
    for turn, calls in enumerate(row["ground_truth"]):
        for at, call in enumerate(calls):
            yield turn, at, call


def _changed(row: Row, turn: int, at: int, call: str) -> Row:
    row["ground_truth"][turn][at] = call
    return row


def _quoted_argument(row: Row, chance: random.Random) -> tuple[int, int, str, str] | None:
    """A call with an argument that the user quotes in the same turn."""
    found = [
        (turn, at, call, match[1])
        for turn, at, call in _calls(row)
        for match in _QUOTED.finditer(call)
        for message in row["turns"][turn]
        if f"'{match[1]}'" in message["content"] and match[1].isascii()
    ]
    return chance.choice(found) if found else None


def _letter_dropped(row: Row, chance: random.Random) -> Row | None:
    if (chosen := _quoted_argument(row, chance)) is None:
        return None
    turn, at, call, text = chosen
    place = chance.randrange(1, len(text) - 1)
    return _changed(row, turn, at, call.replace(text, text[:place] + text[place + 1 :]))


def _word_replaced(row: Row, chance: random.Random) -> Row | None:
    chosen = _quoted_argument(row, chance)
    if chosen is None or len(chosen[3].split()) < 4:
        return None
    turn, at, call, text = chosen
    parts = text.split()
    parts[chance.randrange(len(parts))] = "the"
    return _changed(row, turn, at, call.replace(text, " ".join(parts)))


def _cut_short(row: Row, chance: random.Random) -> Row | None:
    if (chosen := _quoted_argument(row, chance)) is None:
        return None
    turn, at, call, text = chosen
    return _changed(row, turn, at, call.replace(text, text[:-1]))


def _text_invented(row: Row, chance: random.Random) -> Row | None:
    if (chosen := _quoted_argument(row, chance)) is None:
        return None
    turn, at, call, text = chosen
    return _changed(row, turn, at, call.replace(text, "Zanzibar quokka"))


def _number_changed(row: Row, chance: random.Random) -> Row | None:
    found = [
        (turn, at, call, match)
        for turn, at, call in _calls(row)
        for match in re.finditer(r"(?<==)(\d+(?:\.\d+)?)(?=[,)])", call)
        if float(match[1]) > 1
    ]
    if not found:
        return None
    turn, at, call, match = chance.choice(found)
    return _changed(row, turn, at, f"{call[: match.start()]}{chance.randrange(60_011, 99_991, 7)}{call[match.end() :]}")


def _id_changed(row: Row, chance: random.Random) -> Row | None:
    found = [
        (turn, at, call, match)
        for turn, at, call in _calls(row)
        for match in re.finditer(r"'([A-Za-z_]*\d{3,}[A-Za-z]*)'", call)
    ]
    if not found:
        return None
    turn, at, call, match = chance.choice(found)
    place = match.start(1) + next(at for at, each in enumerate(match[1]) if each.isdigit()) + 1
    digit = str((int(call[place]) + 5) % 10)
    return _changed(row, turn, at, call[:place] + digit + call[place + 1 :])


def _not_offered(row: Row, chance: random.Random) -> Row | None:
    name = read_python_calls(chance.choice([*_calls(row)])[2]).calls[0].name
    for column in ("functions", "tools"):
        row[column] = [each for each in row[column] if each.get("function", each)["name"] != name]
    return row


def _schema_broken(row: Row, chance: random.Random) -> Row | None:
    found = [each for each in _calls(row) if re.search(r"=\d", each[2])]
    if not found:
        return None
    turn, at, call = chance.choice(found)
    return _changed(row, turn, at, re.sub(r"=(\d[\d.]*)", r"='\1 units'", call, count=1))


def _argument_missing(row: Row, chance: random.Random) -> Row | None:
    found = [each for each in _calls(row) if re.search(r"\(\w+='[^']*'\)$", each[2]) and "ls(" not in each[2]]
    if not found:
        return None
    turn, at, call = chance.choice(found)
    return _changed(row, turn, at, f"{call.partition('(')[0]}()")


def _call_repeated(row: Row, chance: random.Random) -> Row | None:
    found = [
        each for each in _calls(row) if re.match(r"(ls|cat|get_|check|display|view|estimate|grep|find|wc)", each[2])
    ]
    if not found:
        return None
    turn, at, call = chance.choice(found)
    row["ground_truth"][turn].insert(at, call)
    return row


def _set_twice(row: Row, chance: random.Random) -> Row | None:
    """Something is set twice to the same."""
    found = [
        each for each in _calls(row) if re.match(r"set_budget_limit|activateParkingBrake|setHeadlights|echo", each[2])
    ]
    if not found:
        return None
    turn, at, call = chance.choice(found)
    row["ground_truth"][turn].insert(at, call)
    return row


def _step_forgotten(row: Row, chance: random.Random) -> Row | None:
    found = [each for each in _calls(row) if re.match(r"cd\((?!.*\.\.)|lockDoors|pressBrake|mkdir|touch", each[2])]
    later = [each for each in found if len(row["ground_truth"][each[0]]) > each[1] + 1]
    if not later:
        return None
    turn, at, _ = chance.choice(later)
    del row["ground_truth"][turn][at]
    return row


def _order_forgotten(row: Row, chance: random.Random) -> Row | None:
    said = "Also, please create a ticket about it." if "TicketAPI" in row["involved_classes"] else None
    said = "Then post a tweet about it." if "TwitterAPI" in row["involved_classes"] else said
    name = "create_ticket" if "TicketAPI" in row["involved_classes"] else "post_tweet"
    quiet = [
        turn for turn, calls in enumerate(row["ground_truth"]) if all(re.match("ls|cat|get_|check", c) for c in calls)
    ]
    quiet = [t for t in quiet if name not in str(row["ground_truth"][max(0, t - 1) : t + 2])]
    if said is None or not quiet:
        return None
    row["turns"][chance.choice(quiet)][0]["content"] += f" {said}"
    return row


def _quote_unused(row: Row, chance: random.Random) -> Row | None:
    turn = chance.choice([turn for turn, calls in enumerate(row["ground_truth"]) if calls and row["turns"][turn]])
    row["turns"][turn][0]["content"] += " Do it in the name of 'Wilhelmina Q.'."
    return row


def _contradicting(row: Row, chance: random.Random) -> list[Row] | None:
    other = copy.deepcopy(row)
    other["id"] = f"{row['id']}_again"
    turn, at, _ = chance.choice([*_calls(other)])
    del other["ground_truth"][turn][at]
    return [row, other]


def _duplicated(row: Row, chance: random.Random) -> list[Row]:
    other = copy.deepcopy(row)
    other["id"] = f"{row['id']}_again"
    other["turns"][0][0]["content"] += " Thanks!"
    return [row, other]


def _judged_by_nothing(row: Row, chance: random.Random) -> Row | None:
    reads = [call for _, _, call in _calls(row) if re.match(r"ls|cat|get_|check|display|grep|find|wc", call)]
    if not reads:
        return None
    row["ground_truth"] = [[] for _ in row["turns"]]
    row["ground_truth"][0] = reads[:1]
    return row | {"final_state_only": True}


PLANTERS: dict[str, tuple[Planter, ...]] = {
    "a text that is nearly the quoted one": (_letter_dropped, _word_replaced, _cut_short),
    "a text from nowhere": (_text_invented,),
    "a number from nowhere": (_number_changed,),
    "another id": (_id_changed,),
    "a function that is not offered": (_not_offered,),
    "arguments that break the schema": (_schema_broken, _argument_missing),
    "a call too many": (_call_repeated, _set_twice),
    "a step too few": (_step_forgotten,),
    "an order that nothing carries out": (_order_forgotten, _quote_unused),
    "rows that contradict each other": (_contradicting,),
    "rows that repeat each other": (_duplicated,),
    "a row that nothing judges": (_judged_by_nothing,),
}

LEAST_SHARE = 0.95
"""The share that must be found."""


def _found(rows: list[Row]) -> set[tuple[str, str, str]]:
    readers = (lambda row: row.get("ground_truth")), (lambda row: row.get("tools"))
    done = audit(checked_rows(rows, row_check=RowCheck(*readers)), DialogueReader(*readers, question=lambda row: None))
    return {(finding.id, finding.kind, finding.evidence) for finding in done.findings}


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    data = get_bfcl(to=tmp_path_factory.mktemp("bfcl") / "data", source=reference_wheel())
    return [dict(row.values) for row in load_bfcl(f"multi_turn_base?data={data}").rows()]


@pytest.mark.parametrize("half", [0, 1], ids=["looked at", "held back"])
@pytest.mark.parametrize("kind", PLANTERS)
def test_planted_errors_are_found(kind: str, half: int, conversations: list[Row]) -> None:
    chance = random.Random(16)
    planted = found = 0
    missed = []
    for row in conversations[half::2]:
        before = _found([row])
        for plant in PLANTERS[kind]:
            changed = plant(copy.deepcopy(row), chance)
            if changed is None:
                continue
            planted += 1
            new = _found(changed if isinstance(changed, list) else [changed]) - before
            found += bool(new)
            if not new:
                missed.append((row["id"], plant.__name__))
    print(f"{kind}: {found} of {planted} found", missed[:8])
    assert planted >= 5
    assert found / planted >= LEAST_SHARE, missed
