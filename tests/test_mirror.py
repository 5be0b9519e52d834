"""A mirror of a storage: what one machine writes another one reads, and nothing that is finished is lost."""

import json
from pathlib import Path

import pytest

from tunecheck import RunError
from tunecheck.storage._address import open_store
from tunecheck.storage._mirror import Mirror

RUN = "val-20260101T120000Z-0a1b2c"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def machine(tmp_path: Path, name: str, address: str) -> Mirror:
    return Mirror(tmp_path / name, address)


def write(mirror: Mirror, file: str, text: str, run: str = RUN) -> None:
    path = mirror.folder / run / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def append(mirror: Mirror, text: str) -> None:
    (mirror.folder / RUN).mkdir(exist_ok=True)
    with (mirror.folder / RUN / "journal.jsonl").open("a", encoding="utf-8") as file:
        file.write(text)


def read(mirror: Mirror, file: str, run: str = RUN) -> str:
    return (mirror.folder / run / file).read_text("utf-8")


def test_what_one_machine_wrote_another_one_reads(tmp_path: Path, address: str) -> None:
    here, there = machine(tmp_path, "here", address), machine(tmp_path, "there", address)
    write(here, "metrics.json", "{}")
    write(here, "memory/summary.json", "[1]")
    append(here, '{"row": 1}\n')
    here.push()
    there.pull()
    assert read(there, "metrics.json") == "{}"
    assert read(there, "memory/summary.json") == "[1]"
    assert read(there, "journal.jsonl") == '{"row": 1}\n'


def test_a_growing_file_is_shipped_in_parts_of_whole_lines(tmp_path: Path, address: str) -> None:
    here, there = machine(tmp_path, "here", address), machine(tmp_path, "there", address)
    append(here, '{"row": 1}\n{"row"')
    here.push()
    append(here, ": 2}\n")
    here.push()
    there.pull()
    assert read(there, "journal.jsonl") == '{"row": 1}\n{"row": 2}\n'
    parts = open_store(address).list(f"{RUN}/journal.jsonl.parts/")
    assert len(parts) == 2


def test_a_line_longer_than_a_part_is_shipped(tmp_path: Path, address: str) -> None:
    here, there = machine(tmp_path, "here", address), machine(tmp_path, "there", address)
    line = json.dumps("x" * (5 << 20)) + "\n"
    append(here, line + line)
    here.push()
    there.pull()
    assert read(there, "journal.jsonl") == line + line


def test_only_what_changed_is_shipped_and_fetched(tmp_path: Path, address: str) -> None:
    here, there = machine(tmp_path, "here", address), machine(tmp_path, "there", address)
    write(here, "metrics.json", "{}")
    write(here, "run.json", '{"status": "running"}')
    assert here.push() == [f"{RUN}/metrics.json", f"{RUN}/run.json"]
    assert here.push() == []
    there.pull()
    write(here, "run.json", '{"status": "finished"}')
    assert here.push() == [f"{RUN}/run.json"]
    there.pull()
    assert read(there, "run.json") == '{"status": "finished"}'
    assert there.push() == []


def test_two_machines_that_go_on_with_one_run_are_told(tmp_path: Path, address: str) -> None:
    here, there = machine(tmp_path, "here", address), machine(tmp_path, "there", address)
    append(here, '{"row": 1}\n')
    here.push()
    there.pull()
    append(there, '{"row": 2, "by": "there"}\n')
    there.push()
    append(here, '{"row": 2, "by": "here"}\n')
    with pytest.raises(RunError, match="another machine has gone on"):
        here.push()


def test_what_only_one_of_them_has_is_kept_beside_what_counts(tmp_path: Path, address: str) -> None:
    here, there = machine(tmp_path, "here", address), machine(tmp_path, "there", address)
    append(here, '{"row": 1}\n')
    here.push()
    there.pull()
    append(there, '{"row": 2, "by": "there"}\n')
    there.push()
    append(here, '{"row": 2, "by": "here"}\n')
    here.pull()
    assert read(here, "journal.jsonl") == '{"row": 1}\n{"row": 2, "by": "there"}\n'
    assert '"by": "here"' in read(here, ".journal.jsonl.unshipped-0")


def test_a_run_that_was_removed_there_goes_here(tmp_path: Path, address: str) -> None:
    here, there = machine(tmp_path, "here", address), machine(tmp_path, "there", address)
    write(here, "run.json", "{}")
    append(here, "{}\n")
    here.push()
    there.pull()
    store = open_store(address)
    for name in store.list(f"{RUN}/"):
        store.delete(name)
    there.pull()
    assert not (there.folder / RUN).exists()


def test_a_run_that_was_never_shipped_stays(tmp_path: Path, address: str) -> None:
    here = machine(tmp_path, "here", address)
    write(here, "run.json", "{}")
    here.pull()
    assert read(here, "run.json") == "{}"


@pytest.mark.parametrize("name", ["../outside", f"{RUN}/../../outside", "outside", f"{RUN}/.hidden", "/outside"])
def test_names_that_lead_out_of_a_run_are_not_fetched(tmp_path: Path, address: str, name: str) -> None:
    class Listing:
        def list(self, prefix: str) -> dict[str, str]:
            return {name: "1"}

        def read(self, name: str) -> None:
            raise AssertionError(f"{name} was asked for")

    mirror = machine(tmp_path, "here", address)
    mirror.store = Listing()  # type: ignore[assignment]  # a storage that somebody else can write
    mirror.pull()
    assert not (tmp_path / "outside").exists()


def test_a_folder_that_says_it_is_a_mirror_is_none_outside_of_the_cache(tmp_path: Path) -> None:
    (tmp_path / ".mirror.json").write_text('{"address": "az://theirs/runs"}', "utf-8")
    assert Mirror.found(tmp_path) is None


def test_a_link_in_a_run_is_not_shipped(tmp_path: Path, address: str) -> None:
    here = machine(tmp_path, "here", address)
    write(here, "run.json", "{}")
    (tmp_path / "secret").write_text("hidden", "utf-8")
    (here.folder / RUN / "link.json").symlink_to(tmp_path / "secret")
    assert here.push() == [f"{RUN}/run.json"]


def test_no_journal_is_there_without_a_manifest_and_no_finished_manifest_without_results(
    tmp_path: Path, address: str
) -> None:
    here = machine(tmp_path, "here", address)
    write(here, "run.json", '{"status": "running"}')
    append(here, "{}\n")
    assert here.push() == [f"{RUN}/run.json", f"{RUN}/journal.jsonl"]
    append(here, "{}\n")
    write(here, "run.json", '{"status": "finished"}')
    write(here, "eval_results.jsonl", "{}\n")
    assert here.push() == [f"{RUN}/eval_results.jsonl", f"{RUN}/journal.jsonl", f"{RUN}/run.json"]
