"""Which rows are not independent: declared by the data, found where values repeat, always said, always changeable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.comparison_parts import declares, row, verdict, write_run

from tunecheck import Comparison, ConfigurationError, compare, evaluate, select

Columns = Callable[[int], Mapping[str, object]]


def two_runs(folder: Path, columns: Columns, **dataset: object) -> tuple[Path, Path]:
    """Runs over 120 rows with these columns; the second fails each of the first twelve."""
    base, new = (
        write_run(
            folder,
            name,
            [row(n, verdict("match", n >= lost), **columns(n)) for n in range(120)],
            declares("match"),
            dataset=dataset,
        )
        for name, lost in (("a", 0), ("b", 12))
    )
    return base, new


def taken(found: Comparison) -> tuple[str | None, int | None]:
    return found.pairs.cluster, found.pairs.clusters


def test_rows_of_a_column_that_the_data_declares_are_not_independent(tmp_path: Path) -> None:
    runs = two_runs(tmp_path, lambda n: {"scenario": f"s{n // 4}"}, cluster="scenario")
    found = compare(*runs)
    assert taken(found) == ("scenario", 30)
    assert found.metrics["match"].difference.clusters == 30
    start = "30 clusters by scenario, as the data says: the rows of one are not independent"
    for notes in (found.notes, select(*runs).notes):
        assert f"{start}; --cluster none takes them to be" in notes


def test_a_column_of_ids_that_repeat_is_found(tmp_path: Path) -> None:
    found = compare(*two_runs(tmp_path, lambda n: {"conversation_id": f"c{n // 3}", "user_id": n // 2}))
    assert taken(found) == ("conversation_id", 40)
    assert any(note.startswith("40 clusters by conversation_id, whose values repeat") for note in found.notes)


@pytest.mark.parametrize(
    "columns",
    [
        lambda n: {"category": f"c{n // 4}"},  # no id
        lambda n: {"annotator_id": n % 5},  # few values: who wrote the rows
        lambda n: {"ticket_id": n},  # none repeats
    ],
    ids=["a category", "few values", "all different"],
)
def test_categories_few_values_and_ids_of_one_row_are_no_clusters(tmp_path: Path, columns: Columns) -> None:
    assert taken(compare(*two_runs(tmp_path, columns))) == (None, None)


def test_another_column_can_be_named_or_none(tmp_path: Path) -> None:
    runs = two_runs(tmp_path, lambda n: {"scenario": n // 4, "topic": n // 10}, cluster="scenario")
    assert taken(compare(*runs, cluster="topic")) == ("topic", 12)
    alone = compare(*runs, cluster="none")
    assert taken(alone) == (None, None)
    assert alone.metrics["match"].p_value == pytest.approx(1 / 2**12)
    assert select(*runs, cluster="none").clusters is None


def test_a_run_says_of_itself_which_rows_are_not_independent(tmp_path: Path) -> None:
    """And gates and reports, which read runs as compare does, take that."""
    data = [{"conversation_id": f"c{n // 2}", "n": n} for n in range(40)]

    def run(name: str, cluster: str | None) -> Path:
        keeping: dict[str, Any] = {"evaluation_name": name, "results_dir": tmp_path, "cluster": cluster}
        return evaluate(data=data, evaluators={"even": lambda n: {"even": n % 2}}, progress=False, **keeping).run_dir

    found, alone = [run(name, None) for name in "ab"], [run(name, "none") for name in "cd"]
    assert taken(compare(*found)) == ("conversation_id", 20)
    assert taken(compare(*alone)) == (None, None)
    with pytest.raises(ConfigurationError, match="cluster: there is no column 'conversation'; did you mean"):
        run("e", "conversation")
