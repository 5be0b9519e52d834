"""MCP servers as services: their answers recorded while a set is authored, and given again without the server."""

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests import mcp_server
from tests.authoring_parts import calls_of, lines, passes
from tests.tables import cases

from tunecheck import ConfigurationError, DataError, FunctionCall
from tunecheck.cli import main
from tunecheck.simulators import Backend, Backends
from tunecheck_authoring import Recorded, write_recorded
from tunecheck_authoring._mcp.client import McpSession, ServerGoneError, files_in
from tunecheck_authoring._mcp.service import LiveServer, recording_backends

STDIO = shlex.join([sys.executable, "-S", "-E", str(Path(mcp_server.__file__))])

FILED = f"{STDIO} {{folder}} files"


pytestmark = pytest.mark.usefixtures("cwd")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with mcp_server.served() as address:
        yield address


@pytest.fixture
def live(url: str, cwd: Path) -> Iterator[LiveServer]:
    """The server beside its new recording."""
    found = LiveServer(recorded(url), url)
    found.recorder()  # records the first state
    yield found
    found.close()


def recorded(server: str) -> type[Recorded]:
    """The simulator of a server, as the workspace has it."""
    write_recorded(server, Path("simulators", "shelf.py"))
    found = Backends().find("shelf")
    assert issubclass(found, Recorded)
    return found


def live_backend(live: LiveServer, before: tuple[FunctionCall, ...] = ()) -> Backend:
    """A new conversation with the server, after these calls."""
    backend = Backends({"shelf": live.recorder()}).start(["shelf"], {})
    for call in before:
        backend.call(call)
    return backend


def add(title: str) -> FunctionCall:
    return FunctionCall("add_book", {"title": title})


LIST = FunctionCall("list_books", {})


def test_a_set_authored_from_a_server_is_scored_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    with mcp_server.served() as address:
        command = [
            "datasets",
            "author",
            "shelf",
            "--mcp",
            address,
            "--tasks",
            "6",
            "--variants",
            "none",
            "--split",
            "0.4",
        ]
        assert main(command) == 0
    rows = lines(Path("datasets/shelf.jsonl"))
    assert len(rows) == 4
    for row in [*rows, *lines(Path("datasets/shelf-train.jsonl"))]:
        turns = calls_of(row)
        assert passes(row, turns)
        assert not passes(row, [[] for _ in turns])
    capsys.readouterr()
    assert main(["check", "datasets/shelf.jsonl"]) == 0
    assert capsys.readouterr().out == "checked 4 rows: no problems\n"


def test_a_recording_answers_as_the_server_did(live: LiveServer) -> None:
    asked = live_backend(live)
    texts = [asked.call(call).text for call in (add("Emma"), LIST)]
    live.close()
    replayed = Backends().start(["shelf"], {})
    assert [replayed.call(call).text for call in (add("Emma"), LIST)] == texts
    assert replayed.states() == asked.states() == {"shelf": {"list_books": {"books": {"Emma": None}}}}


def test_what_was_not_recorded_is_said_in_the_reply_and_in_the_state(live: LiveServer) -> None:
    backend = Backends().start(["shelf"], {})
    result = backend.call(add("Emma"))
    assert result.error
    assert "not recorded" in result.text
    assert backend.states() == {"shelf": {"not_recorded": 'add_book({"title":"Emma"})'}}
    assert "because add_book" in backend.call(LIST).text


def test_an_unrecorded_call_that_only_reads_leaves_the_state_known(live: LiveServer) -> None:
    backend = Backends().start(["shelf"], {})
    assert backend.call(FunctionCall("tell_key", {})).error
    assert backend.states() == {"shelf": {"list_books": {"books": {}}}}


def test_each_conversation_meets_the_server_as_it_begins(live: LiveServer) -> None:
    live_backend(live).call(add("Emma"))
    assert live_backend(live).call(LIST).value == {"books": {}}


def test_a_configuration_is_refused_since_each_conversation_begins_as_recorded(live: LiveServer) -> None:
    with pytest.raises(DataError, match="Shelf takes no configuration; remove its entry"):
        Backends().start(["shelf"], {"shelf": {"before": []}})


def test_annotations_say_what_writes_and_trying_shows_what_tells_of_it(url: str) -> None:
    simulator = recorded(url)
    assert simulator.writes == ["add_book", "lend_book"]
    assert simulator.state_from == {"list_books": {}}


def test_without_a_tool_that_tells_of_it_the_state_is_what_was_written(url: str, cwd: Path) -> None:
    path = cwd / "simulators" / "shelf.tables.json"
    write_recorded(url, path.with_name("shelf.py"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "state_from": {}}))
    live = LiveServer(recorded(url), url)
    backend = live_backend(live)
    backend.call(add("Emma"))
    backend.call(FunctionCall("lend_book", {"title": "Walden", "reader": "Ines"}))
    assert backend.states() == {"shelf": {"calls": ['add_book(title="Emma")']}}
    live.close()


def test_a_command_starts_the_server_anew_and_its_process_ends() -> None:
    live = LiveServer(recorded(STDIO), STDIO)
    live.recorder()
    [begun] = live._sessions
    process = begun.session._transport._process  # type: ignore[union-attr]
    live_backend(live).call(add("Emma"))
    assert live_backend(live).call(LIST).value == {"books": {}}
    live.close()
    assert process.returncode is not None


@pytest.mark.parametrize("kept", ["files", "memory"])
def test_a_conversation_meets_the_books_that_were_added_before_it_and_no_others(kept: str) -> None:
    server = FILED.replace("files", kept)
    live = LiveServer(recorded(server), server)
    for title in ("Emma", "Walden"):
        assert live_backend(live, (add(title),)).call(LIST).value == {"books": {title: None}}
    live.close()


def test_files_are_the_state_where_no_tool_tells_of_it() -> None:
    server = FILED.replace("files", "untold")
    simulator = recorded(server)
    assert simulator.state_from == {"{folder}": {}}
    live = LiveServer(simulator, server)
    backend = live_backend(live)
    backend.call(add("Emma"))
    assert backend.states() == {"shelf": {"files": {"/service/books.json": '{"Emma": null}'}}}
    live.close()


def test_a_server_that_was_started_ahead_ends_with_the_others_at_ctrl_c(cwd: Path) -> None:
    recorded(STDIO)
    command = shlex.join(["sh", "-c", f"echo $$ >> {shlex.quote(str(cwd / 'started'))}; exec {STDIO}"])
    with pytest.raises(KeyboardInterrupt), recording_backends(command, "shelf", Backends()):
        raise KeyboardInterrupt
    started = (cwd / "started").read_text().split()
    assert len(started) == 2
    for process in started:
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)


def test_sessions_are_kept_in_the_states_they_are_in(live: LiveServer) -> None:
    for number, before in enumerate([(), (add("Emma"),), (), (add("Emma"),)]):
        refused = FunctionCall("lend_book", {"title": "Dracula", "reader": f"reader {number}"})
        assert live_backend(live, before).call(refused).error
    assert [begun.written for begun in live._sessions] == [[], ['add_book(title="Emma")']]


def test_a_commands_folder_is_new_empty_and_called_by_one_name() -> None:
    with closing(McpSession(f"{STDIO} {{folder}}", 5)) as session:
        assert session.call("tell_folder", {"title": "/service/notes.txt"}) == (
            {"folder": "/service", "is_here": True, "asked": "/service/notes.txt", "holds": []},
            False,
        )


def test_a_secret_of_the_environment_is_not_recorded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "blue-horse-staple")
    live = LiveServer(recorded(url), url)
    assert live_backend(live).call(FunctionCall("tell_key", {})).value == {"key": "***"}
    live.close()
    assert "blue-horse" not in Path("simulators/shelf.recording.jsonl").read_text()


def test_a_secret_of_the_command_does_not_stand_in_the_card(url: str) -> None:
    assert main(["datasets", "author", "shelf", "--mcp", f"{url}?token=horse", "--tasks", "2", "--turns", "1"]) == 0
    assert "horse" not in Path("datasets/shelf.card.md").read_text()


def test_a_quoted_secret_of_the_command_does_not_stand_in_the_card() -> None:
    server = f"env API_TOKEN='blue horse' {STDIO}"
    assert main(["datasets", "author", "shelf", "--mcp", server, "--tasks", "2", "--turns", "1"]) == 0
    card = Path("datasets/shelf.card.md").read_text()
    assert ("API_TOKEN=***" in card, "horse" in card) == (True, False)


@pytest.mark.parametrize(
    "command",
    [
        "env API_TOKEN=horse {python} -c pass",
        "{python} -c pass --api-key horse",
        "{python} -c pass -y srv --token=horse",
        "{python} -c pass '--password' 'horse'",
        "{python} -c pass -H 'Authorization: Bearer horse'",
        "sh -c 'API_KEY=horse exec {python} -c pass'",
    ],
)
def test_an_error_shows_the_command_without_its_secret(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    server = command.replace("{python}", shlex.quote(sys.executable))
    assert main(["datasets", "author", "shelf", "--mcp", server]) == 2
    error = capsys.readouterr().err
    assert ("***" in error, "horse" in error) == (True, False)


def test_a_server_that_keeps_what_was_written_is_refused() -> None:
    with mcp_server.served(keeps=True) as url:
        simulator = recorded(url)
        live = LiveServer(simulator, url)
        live_backend(live).call(add("Ivanhoe 2"))
        live.close()
        with (
            pytest.raises(ConfigurationError, match="did not start in the recorded state"),
            recording_backends(url, "shelf", Backends()) as backends,
        ):
            backends.start(["shelf"], {}).call(FunctionCall("tell_key", {}))


@cases("authoring")
def test_a_server_that_does_not_answer_is_one_line(server: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = server.replace("{python}", shlex.quote(sys.executable))
    assert main(["datasets", "author", "shelf", "--mcp", command]) == 2
    assert why in (error := capsys.readouterr().err)
    assert len(error.splitlines()) == 1
    assert not Path("datasets").exists()


def test_a_recording_that_is_damaged_names_itself(live: LiveServer) -> None:
    with Path("simulators/shelf.recording.jsonl").open("a") as file:
        file.write(json.dumps({"call": 7}))
    with pytest.raises(DataError, match=r"shelf\.recording\.jsonl, line [0-9]+: call: must be a text"):
        Backends().start(["shelf"], {})


def test_a_recording_that_is_a_link_is_refused(live: LiveServer, tmp_path: Path) -> None:
    recording = Path("simulators/shelf.recording.jsonl")
    recording.rename(tmp_path / "elsewhere.jsonl")
    recording.symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(DataError, match=r"shelf\.recording\.jsonl: cannot be read: .* is a link"):
        Backends().start(["shelf"], {})


def test_an_answer_over_http_is_limited_in_bytes(url: str) -> None:
    with closing(McpSession(url, 5)) as session, pytest.raises(ServerGoneError, match="exceeds 4,000,000 bytes"):
        for _ in range(2):  # every other reply is a stream of events
            session.call("add-book", {"title": "é" * 2_100_000})


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-11-25", "2099-01-01"])
def test_all_messages_after_the_first_name_the_version_that_the_server_chose(version: str) -> None:
    with mcp_server.served(version=version) as url:
        assert "add_book" in recorded(url).tools


def test_the_end_of_a_session_is_sent_to_the_whole_url() -> None:
    ended: list[str] = []
    with mcp_server.served(ended=ended) as url:
        McpSession(f"{url}?token=horse", 5).close()
    assert ended == ["/mcp?token=horse"]


@pytest.mark.parametrize("version", ["2025-03-26\nX-Key: 1", " 2025-03-26"])
def test_a_server_that_refuses_the_end_of_the_greeting_is_named(version: str) -> None:
    with (
        mcp_server.served(version=version) as url,
        pytest.raises(ConfigurationError, match=rf"MCP server {url}: the request notifications/initialized failed: "),
    ):
        recorded(url)


def test_a_name_that_python_cannot_have_is_asked_for_under_the_servers_own(url: str) -> None:
    with closing(McpSession(url, 5)) as session:
        assert [tool["name"] for tool in session.tools()][:1] == ["add-book"]
    assert recorded(url).tools["add_book"]["name"] == "add-book"


# -- the files in a server's folder: shown as the state of the service


@pytest.fixture
def served_folder(tmp_path: Path) -> Path:
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts" / "letter.txt").write_text("Dear neighbours")
    (tmp_path / "notes.txt").write_text("Monday")
    return tmp_path


def test_files_are_shown_by_the_paths_that_calls_have_and_folders_hold_nothing(served_folder: Path) -> None:
    (served_folder / "photo.bin").write_bytes(b"\xff\x00")
    (served_folder / "index.txt").write_text(f"see {served_folder}/notes.txt")
    shown = files_in(served_folder)
    assert shown is not None
    assert shown["/service/drafts"] is None
    assert shown["/service/notes.txt"] == "Monday"
    assert shown["/service/drafts/letter.txt"] == "Dear neighbours"
    assert shown["/service/index.txt"] == "see /service/notes.txt"
    assert str(shown["/service/photo.bin"]).startswith("sha256:")


def test_a_folder_with_links_or_more_than_a_megabyte_is_not_shown(served_folder: Path) -> None:
    (served_folder / "large.bin").write_bytes(b"7" * 1_000_001)
    assert files_in(served_folder) is None
    (served_folder / "large.bin").unlink()
    (served_folder / "link").symlink_to(served_folder / "notes.txt")
    assert files_in(served_folder) is None
