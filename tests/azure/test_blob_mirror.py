"""The mirror of runs in blob storage: one machine reads what another wrote, and nothing that is finished is lost."""

import json
from pathlib import Path

import pytest
from tests.azure.test_blob_storage import container_address

from tunecheck.runs import mirror_at
from tunecheck_azure._mirror.folder import BlobStore, ContinuedElsewhereError, MirrorFolder
from tunecheck_azure._mirror.shipping import BlobMirror

RUN = "val-20260101T120000Z-0a1b2c"


@pytest.fixture
def address(blob_port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    return container_address(blob_port, monkeypatch)


@pytest.fixture
def here(tmp_path: Path, address: str) -> MirrorFolder:
    return MirrorFolder(tmp_path / "here", address)


@pytest.fixture
def there(tmp_path: Path, address: str) -> MirrorFolder:
    return MirrorFolder(tmp_path / "there", address)


def write(mirror: MirrorFolder, file: str, text: str, run: str = RUN) -> None:
    path = mirror.folder / run / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def append(mirror: MirrorFolder, text: str) -> None:
    (mirror.folder / RUN).mkdir(exist_ok=True)
    with (mirror.folder / RUN / "journal.jsonl").open("a", encoding="utf-8") as file:
        file.write(text)


def read(mirror: MirrorFolder, file: str, run: str = RUN) -> str:
    return (mirror.folder / run / file).read_text("utf-8")


def test_what_one_machine_wrote_another_one_reads(here: MirrorFolder, there: MirrorFolder) -> None:
    write(here, "metrics.json", "{}")
    write(here, "memory/summary.json", "[1]")
    append(here, '{"row": 1}\n')
    here.push()
    there.pull()
    assert read(there, "metrics.json") == "{}"
    assert read(there, "memory/summary.json") == "[1]"
    assert read(there, "journal.jsonl") == '{"row": 1}\n'


def test_a_growing_file_is_sent_in_parts_of_whole_lines(here: MirrorFolder, there: MirrorFolder, address: str) -> None:
    append(here, '{"row": 1}\n{"row"')
    here.push()
    append(here, ": 2}\n")
    here.push()
    there.pull()
    assert read(there, "journal.jsonl") == '{"row": 1}\n{"row": 2}\n'
    parts = BlobStore(address).list(f"{RUN}/journal.jsonl.parts/")
    assert len(parts) == 2


def test_a_line_longer_than_a_part_is_shipped(here: MirrorFolder, there: MirrorFolder) -> None:
    line = json.dumps("x" * (5 << 20)) + "\n"
    append(here, line + line)
    here.push()
    there.pull()
    assert read(there, "journal.jsonl") == line + line


def test_only_what_changed_is_shipped_and_fetched(here: MirrorFolder, there: MirrorFolder) -> None:
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


def test_a_journal_that_both_have_continued_stays_and_the_problem_names_its_folder(
    here: MirrorFolder, there: MirrorFolder
) -> None:
    append(here, '{"row": 1}\n')
    here.push()
    there.pull()
    append(there, '{"row": 2, "by": "there"}\n')
    there.push()
    append(here, '{"row": 2, "by": "here"}\n')
    (problem,) = here.pull()
    assert f"moves {here.folder / RUN} to .unshipped" in problem
    assert read(here, "journal.jsonl") == '{"row": 1}\n{"row": 2, "by": "here"}\n'


def test_where_another_machine_has_gone_on_its_files_stay_and_commands_work(
    here: MirrorFolder, there: MirrorFolder, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here, "run.json", "begun")
    append(here, "1\n")
    here.push()
    there.pull()
    for mirror, text in ((there, "theirs"), (here, "ours")):
        append(mirror, f"{text}\n")
        write(mirror, "run.json", text)
        write(mirror, "eval_results.jsonl", text)
    there.push()
    monkeypatch.setattr("tunecheck_azure._mirror.shipping.mirror_folder", lambda *_: here.folder)
    told: list[str] = []
    with BlobMirror(address).kept(told.append, whole=True):
        assert {read(here, file) for file in ("run.json", "eval_results.jsonl")} == {"theirs"}
        assert read(here, "journal.jsonl") == "1\ntheirs\n"
    there.pull()
    assert read(there, "eval_results.jsonl") == "theirs"
    (aside,) = (here.folder / ".unshipped").iterdir()
    assert told == [f"note: another machine has continued {RUN}; this machine's results are in {aside}"]
    assert (aside / "run.json").read_text("utf-8") == "ours"


def test_a_machine_whose_journal_has_not_grown_gives_way_as_well(
    here: MirrorFolder, there: MirrorFolder, tmp_path: Path, address: str
) -> None:
    write(here, "run.json", "running")
    append(here, "1\n")
    here.push()
    there.pull()
    append(there, "2\n")
    write(there, "run.json", "finished")
    there.push()
    write(here, "run.json", "stopped")
    with pytest.raises(ContinuedElsewhereError):
        here.push()
    reader = MirrorFolder(tmp_path / "reader", address)
    reader.pull()
    assert read(reader, "run.json") == "finished"


def test_a_part_that_was_shipped_and_whose_reply_was_lost_is_this_machine_s_own(
    here: MirrorFolder, there: MirrorFolder, address: str
) -> None:
    append(here, "1\n")
    BlobStore(address).create(f"{RUN}/journal.jsonl.parts/00000000", b"1\n")
    append(here, "2\n")
    here.push()
    there.pull()
    assert read(there, "journal.jsonl") == "1\n2\n"


@pytest.mark.parametrize(
    "stray", ["journal.jsonl.parts/readme", "journal.jsonl.parts/00000001 (1)", "journal.jsonl.parts", "notes.parts/1"]
)
def test_a_stray_object_changes_nothing(here: MirrorFolder, there: MirrorFolder, address: str, stray: str) -> None:
    write(here, "run.json", "{}")
    append(here, "1\n")
    here.push()
    BlobStore(address).put(f"{RUN}/{stray}", b"?")
    assert there.pull() == []
    assert read(there, "journal.jsonl") == "1\n"


def test_an_object_for_a_folder_is_not_taken_for_a_file(here: MirrorFolder, there: MirrorFolder, address: str) -> None:
    write(here, "memory/summary.json", "[1]")
    here.push()
    BlobStore(address).put(f"{RUN}/memory", b"")
    there.pull()
    assert read(there, "memory/summary.json") == "[1]"


def test_a_journal_that_lacks_a_part_hides_no_other_run(here: MirrorFolder, there: MirrorFolder, address: str) -> None:
    for number in range(3):
        append(here, f"{number}\n")
        here.push()
    write(here, "run.json", "{}", run="other")
    here.push()
    BlobStore(address).delete(f"{RUN}/journal.jsonl.parts/00000001")
    (problem,) = there.pull()
    assert "journal.jsonl.parts/00000001 is missing; restore this part, or remove" in problem
    assert read(there, "run.json", run="other") == "{}"


def test_a_run_that_was_removed_there_goes_here(here: MirrorFolder, there: MirrorFolder, address: str) -> None:
    write(here, "run.json", "{}")
    append(here, "{}\n")
    here.push()
    there.pull()
    store = BlobStore(address)
    for name in store.list(f"{RUN}/"):
        store.delete(name)
    there.pull()
    assert not (there.folder / RUN).exists()


def test_a_run_that_was_never_shipped_stays(here: MirrorFolder) -> None:
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

    mirror = MirrorFolder(tmp_path / "here", address)
    mirror.store = Listing()  # type: ignore[assignment]  # a storage that somebody else can write
    mirror.pull()
    assert not (tmp_path / "outside").exists()


def test_a_folder_that_says_it_is_a_mirror_is_none_outside_of_the_cache(tmp_path: Path) -> None:
    (tmp_path / ".mirror.json").write_text('{"address": "az://theirs/runs"}', "utf-8")
    assert mirror_at(tmp_path) is None


def test_a_link_in_a_run_is_not_shipped(here: MirrorFolder, tmp_path: Path) -> None:
    write(here, "run.json", "{}")
    (tmp_path / "secret").write_text("hidden", "utf-8")
    (here.folder / RUN / "link.json").symlink_to(tmp_path / "secret")
    assert here.push() == [f"{RUN}/run.json"]


def test_no_journal_is_there_without_a_manifest_and_no_finished_manifest_without_results(here: MirrorFolder) -> None:
    write(here, "run.json", '{"status": "running"}')
    append(here, "{}\n")
    assert here.push() == [f"{RUN}/run.json", f"{RUN}/journal.jsonl"]
    append(here, "{}\n")
    write(here, "run.json", '{"status": "finished"}')
    write(here, "eval_results.jsonl", "{}\n")
    assert here.push() == [f"{RUN}/journal.jsonl", f"{RUN}/eval_results.jsonl", f"{RUN}/run.json"]
