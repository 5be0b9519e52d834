"""Row ids and fingerprints: when the column `id` is taken, and what equal content means."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tunecheck.datasets._reading import IdCheck, open_dataset, usable_id


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row.id for row in open_dataset(rows).rows()]


def test_unique_ids_are_taken_as_text() -> None:
    assert ids([{"id": "a"}, {"id": 7}, {"id": -1}]) == ["a", "7", "-1"]


@pytest.mark.parametrize(
    "second", [{"id": "a"}, {}, {"id": None}, {"id": ""}, {"id": "  "}, {"id": True}, {"id": 1.5}, {"id": ["b"]}]
)
def test_one_id_that_is_missing_or_unusable_makes_all_rows_go_by_number(second: dict[str, Any]) -> None:
    assert ids([{"id": "a"}, second]) == ["row-1", "row-2"]


def test_a_number_and_its_text_are_the_same_id() -> None:
    assert ids([{"id": 1}, {"id": "1"}]) == ["row-1", "row-2"]


def test_an_id_as_long_as_content_is_none() -> None:
    assert ids([{"id": "x" * 2_000}]) == ["row-1"]
    assert usable_id(10**5_000) is None


def test_a_row_has_the_same_id_with_and_without_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b"}\n{"id": "a"}\n')
    assert [row.id for row in open_dataset(path, limit=1).rows()] == ["row-1"]
    assert not open_dataset(path, limit=1).scan().ids_unique


def test_the_fingerprint_is_a_short_hash_of_canonical_json() -> None:
    values = {"b": [1, 2.5, None], "a": "é"}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    expected = hashlib.blake2b(text, digest_size=8).hexdigest()
    assert next(open_dataset([values]).rows()).fingerprint == expected


def test_fingerprints_tell_true_from_one_and_text_from_number() -> None:
    rows = [{"a": True}, {"a": 1}, {"a": "1"}, {"a": 1.0}, {"a": None}, {}]
    assert len({row.fingerprint for row in open_dataset(rows).rows()}) == len(rows)


def test_content_with_lone_surrogates_and_huge_integers_has_a_fingerprint() -> None:
    rows = list(open_dataset([{"a": "\ud83d"}, {"a": 2**100}]).rows())
    assert all(len(row.fingerprint) == 16 for row in rows)


@given(st.lists(st.text(max_size=3), max_size=3_000))
def test_a_text_is_new_exactly_once(texts: list[str]) -> None:
    check, seen = IdCheck(), set[str]()
    for text in texts:
        assert check.add(text) == (text not in seen)
        seen.add(text)


def test_a_hundred_thousand_ids_are_told_apart() -> None:
    check = IdCheck()
    assert all(check.add(f"question-{number}") for number in range(100_000))
    assert not any(check.add(f"question-{number}") for number in range(100_000))
