"""Row ids and fingerprints: when the column `id` is taken, and what equal content means."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tunecheck import DataError
from tunecheck.datasets import open_dataset, usable_id


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row.id for row in open_dataset(rows).rows()]


def test_unique_ids_are_taken_as_text() -> None:
    assert ids([{"id": "a"}, {"id": 7}, {"id": -1}]) == ["a", "7", "-1"]


@pytest.mark.parametrize(
    "second", [{}, {"id": None}, {"id": ""}, {"id": "  "}, {"id": True}, {"id": 1.5}, {"id": ["b"]}]
)
def test_one_id_that_is_missing_or_unusable_makes_all_rows_go_by_number(second: dict[str, Any]) -> None:
    assert ids([{"id": "a"}, second]) == ["row-1", "row-2"]


def test_an_id_that_occurs_twice_is_refused_with_both_rows_and_the_way_on() -> None:
    said = r"row 3: the id 'a' occurs twice \(first in row 1\): make ids unique .* --number-ids"
    with pytest.raises(DataError, match=said):
        ids([{"id": "a"}, {"id": "b"}, {"id": "a"}])


def test_a_number_and_its_text_are_the_same_id() -> None:
    with pytest.raises(DataError, match="'1' occurs twice"):
        ids([{"id": 1}, {"id": "1"}])


def test_ids_that_occur_twice_are_numbered_on_request_and_the_others_kept() -> None:
    rows = [{"id": "a"}, {"id": "b"}, {"id": "a"}, {"id": "a"}]
    for data in (rows, iter(rows)):
        assert [row.id for row in open_dataset(data, number_ids=True).rows()] == ["a", "b", "a@3", "a@4"]


def test_a_numbered_id_that_a_row_has_by_itself_is_numbered_again() -> None:
    rows = [{"id": "a"}, {"id": "a"}, {"id": "a@2"}]
    assert [row.id for row in open_dataset(rows, number_ids=True).rows()] == ["a", "a@2", "a@2@3"]


def test_an_id_as_long_as_content_is_none() -> None:
    assert ids([{"id": "x" * 2_000}]) == ["row-1"]
    assert usable_id(10**5_000) is None


def test_ids_are_judged_over_the_whole_file_with_a_limit_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b"}\n{"id": "a"}\n')
    with pytest.raises(DataError, match=r"x.jsonl, line 3: the id 'a' occurs twice \(first in line 1\)"):
        list(open_dataset(path, limit=1).rows())


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


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=60))
def test_ids_are_refused_exactly_when_two_are_the_same(names: list[str]) -> None:
    rows = [{"id": name} for name in names]
    if len(set(names)) == len(names):
        assert ids(rows) == names
    else:
        with pytest.raises(DataError, match="occurs twice"):
            ids(rows)
