"""Fetching BFCL's data: from the index, a wheel, a tree or a clone; nothing of it is run, nothing lands elsewhere."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bfcl_data_parts import make_tree, make_wheel
from tests.bfcl_reference import reference_wheel

from tunecheck import ConfigurationError, DataError
from tunecheck.cli import main
from tunecheck.plugins import cache_folder
from tunecheck_bfcl import find_bfcl, get_bfcl
from tunecheck_bfcl._data import download as bfcl_download
from tunecheck_bfcl._data.files import TEXTS

REFUSING = "http://me:hunter2@127.0.0.1:9/simple"


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def own_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel made of a tiny tree, which passes for the release."""
    make_tree(tmp_path / "tree")
    members: dict[str, str | bytes] = {
        name: (tmp_path / "tree" / name).read_bytes() for name in _files(tmp_path / "tree")
    }
    wheel = make_wheel(tmp_path / "own.whl", members | {"bfcl_eval/__init__.py": "raise SystemExit('run')"})
    _passes_for_the_release(wheel, monkeypatch)
    return wheel


def _passes_for_the_release(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfcl_download, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())


def test_of_the_wheel_only_data_and_the_four_text_files_are_kept(tmp_path: Path) -> None:
    folder = get_bfcl(to=tmp_path / "data", source=reference_wheel())
    texts = {f"bfcl_eval/{text.as_posix()}" for text in TEXTS}
    assert {name for name in _files(folder) if not name.endswith(".json")} == texts
    assert all(name.startswith("bfcl_eval/data/") for name in _files(folder) if name.endswith(".json"))
    assert list(tmp_path.iterdir()) == [folder]


def test_fetching_imports_nothing_of_the_package(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tunecheck_bfcl._data.download import get_bfcl\n"
        f"get_bfcl(to=Path({str(tmp_path / 'data')!r}), source=Path({str(reference_wheel())!r}))\n"
        "print([name for name in sys.modules if name.startswith('bfcl')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_data_that_is_there_and_whole_is_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = get_bfcl(to=tmp_path / "data", source=reference_wheel())
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("something was fetched"))
    assert get_bfcl(to=folder) == folder


def test_data_that_is_not_whole_any_more_is_put_there_again(tmp_path: Path, own_wheel: Path) -> None:
    folder = get_bfcl(to=tmp_path / "data", source=own_wheel)
    (folder / "bfcl_eval/data/BFCL_v4_irrelevance.json").unlink()
    get_bfcl(to=folder, source=own_wheel)
    assert find_bfcl(folder).missing() == []


def test_a_wheel_with_another_digest_is_refused_and_nothing_is_left_behind(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree")
    wheel = make_wheel(tmp_path / "bfcl_eval-2026.3.23-py3-none-any.whl", {"bfcl_eval/data/x.json": "{}"})
    with pytest.raises(DataError, match=r"is not the wheel of bfcl-eval==2026\.3\.23 \(sha256 [0-9a-f]{64}, not 3bb6"):
        get_bfcl(to=tmp_path / "data", source=wheel)
    assert sorted(path.name for path in tmp_path.iterdir()) == [wheel.name, "tree"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"not a zip file at all"])
def test_a_file_that_is_no_wheel_is_an_error_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.whl").write_bytes(content)
    with pytest.raises(DataError, match=r"the wheel .* cannot be read: "):
        bfcl_download.unpack_wheel(tmp_path / "w.whl", tmp_path / "out")


def test_a_damaged_member_is_an_error_in_one_line(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w.whl", {"bfcl_eval/data/x.json": os.urandom(2000)})
    damaged = bytearray(wheel.read_bytes())
    damaged[200] ^= 0xFF
    wheel.write_bytes(damaged)
    with pytest.raises(DataError, match=r"the wheel .* cannot be read: "):
        bfcl_download.unpack_wheel(wheel, tmp_path / "out")


def test_a_wheel_that_lacks_a_file_is_refused_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_tree(tmp_path / "tree")
    (data / "possible_answer" / "BFCL_v4_live_simple.json").unlink()
    names = _files(tmp_path / "tree")
    wheel = make_wheel(tmp_path / "own.whl", {name: (tmp_path / "tree" / name).read_bytes() for name in names})
    _passes_for_the_release(wheel, monkeypatch)
    with pytest.raises(DataError, match=r"the wheel lacks .*BFCL_v4_live_simple\.json"):
        get_bfcl(to=tmp_path / "data", source=wheel)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("source", "said"), [("nothing", "nothing is no file;"), ("empty", "empty is no file;")])
def test_a_source_without_the_data_says_what_to_give(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=said):
        get_bfcl(to=tmp_path / "data", source=tmp_path / source)


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path, own_wheel: Path) -> None:
    with pytest.raises(ConfigurationError, match="is neither empty nor a copy of BFCL's data; give another folder"):
        get_bfcl(to=tmp_path, source=own_wheel)
    assert own_wheel.exists()


def test_an_empty_folder_is_filled(tmp_path: Path, own_wheel: Path) -> None:
    (tmp_path / "data").mkdir()
    assert find_bfcl(get_bfcl(to=tmp_path / "data", source=own_wheel)).missing() == []


def test_a_folder_that_cannot_be_written_is_an_error_in_one_line(tmp_path: Path, own_wheel: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        get_bfcl(to=tmp_path / "file" / "data", source=own_wheel)


def test_two_who_fetch_at_once_both_succeed(tmp_path: Path, own_wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "data"
    monkeypatch.setattr(bfcl_download, "_check", _once(lambda: get_bfcl(to=target, source=own_wheel)))
    assert get_bfcl(to=target, source=own_wheel) == target
    assert find_bfcl(target).missing() == []


def _once(action: Callable[[], object]) -> Callable[[Path], None]:
    """A function that acts at its first call, before the code under test can."""
    calls: list[Path] = []

    def act(folder: Path) -> None:
        calls.append(folder)
        if len(calls) == 1:
            action()

    return act


def test_without_pip_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DataError, match=r"install pip, .* tunecheck bfcl get --from WHEEL"):
        get_bfcl(to=tmp_path / "data")


def test_an_index_that_refuses_is_quoted_without_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("pip") is None:
        pytest.skip("pip is not here")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"PIP_INDEX_URL": REFUSING, "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DataError, match="pip cannot download") as caught:
        get_bfcl(to=tmp_path / "data")
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_credentials_in_an_installers_words_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "first line\nERROR: no such index https://me:hunter2@index.example/simple\n"
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, "", said))
    with pytest.raises(DataError, match=r"https://\*\*\*@index\.example/simple"):
        get_bfcl(to=tmp_path / "data")


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNECHECK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "tunecheck"
    monkeypatch.setenv("TUNECHECK_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_cached_data_is_found_by_name_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_wheel: Path) -> None:
    monkeypatch.setenv("TUNECHECK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TUNECHECK_BFCL", raising=False)
    folder = get_bfcl(source=own_wheel)
    assert folder == tmp_path / "cache" / "bfcl" / "2026.3.23"
    assert find_bfcl().data == folder / "bfcl_eval" / "data"


def got(*arguments: str) -> int:
    """`tunecheck bfcl get` with these arguments; returns its exit code."""
    return main(["bfcl", "get", *arguments])


def test_the_data_is_got_from_a_wheel_and_its_place_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "data"
    assert got("--to", str(target), "--from", str(reference_wheel())) == 0
    said = capsys.readouterr().out
    assert f"TUNECHECK_BFCL={target}" in said
    assert "note:" not in said
