"""GorillaFileSystem: what its commands do, and what BFCL's do that ours must not."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tunecheck import DataError
from tunecheck.calls import FunctionCall
from tunecheck.simulators import Backend, OperationResult
from tunecheck_bfcl._services._file_system import GorillaFileSystem
from tunecheck_bfcl._services._file_tree import MAX_CHARACTERS, MAX_DEPTH, MAX_ENTRIES


def file(content: Any = "") -> dict[str, Any]:
    return {"type": "file", "content": content}


def directory(**contents: Any) -> dict[str, Any]:
    return {"type": "directory", "contents": contents}


HOME = {
    "root": {
        "home": directory(
            docs=directory(**{"a.txt": file("b\na\nb c\n"), "deep": directory(x=file("1"))}),
            empty=directory(),
            **{"n.txt": file("one two\nthree"), ".hidden": file()},
        )
    }
}


class Shell:
    """A file system, and commands as methods: `shell.ls()`."""

    def __init__(self, config: Any = HOME) -> None:
        simulator = GorillaFileSystem()
        simulator.load(config)
        self.backend = Backend({"GorillaFileSystem": simulator})

    def __getattr__(self, command: str) -> Any:
        return lambda **arguments: self.backend.call(FunctionCall(command, arguments))

    @property
    def tree(self) -> Any:
        return self.backend.states()["GorillaFileSystem"]["root"]


@pytest.fixture
def shell() -> Shell:
    return Shell()


def test_the_state_is_the_tree_as_plain_data(shell: Shell) -> None:
    assert shell.tree == {
        "home": {
            "docs": {"a.txt": "b\na\nb c\n", "deep": {"x": "1"}},
            "empty": {},
            "n.txt": "one two\nthree",
            ".hidden": "",
        }
    }


def test_the_state_in_a_log_has_the_form_of_bfcls_logs() -> None:
    shell = Shell({"root": {"w": directory(d=directory(), f=file("x y"))}})
    assert shell.backend.state_texts()["GorillaFileSystem"] == {
        "long_context": False,
        "root": "<Directory: w, Parent: None, Contents: "
        "{'d': <Directory: d, Parent: w, Contents: {}>, 'f': <<File: f, Content: x y>>}>",
    }


def test_without_a_configuration_there_is_an_empty_root() -> None:
    shell = Shell({})
    assert shell.pwd().value == {"current_working_directory": "//"}
    assert shell.tree == {"/": {}}


def test_one_moves_through_directories_a_step_at_a_time(shell: Shell) -> None:
    assert shell.cd(folder="docs").text == '{"current_working_directory": "docs"}'
    assert shell.cd(folder="deep/").text == '{"current_working_directory": "deep"}'
    assert shell.pwd().text == '{"current_working_directory": "/home/docs/deep"}'
    assert shell.cd(folder="..").text == "{}"
    assert shell.cd(folder="/").text == '{"current_working_directory": "home"}'
    assert shell.cd(folder="..").error
    assert shell.cd(folder="docs/deep").error
    assert shell.cd(folder="n.txt").error


def test_the_current_directory_is_no_part_of_the_state(shell: Shell) -> None:
    before = copy.deepcopy(shell.tree)
    shell.cd(folder="docs")
    assert shell.tree == before


def test_ls_hides_names_that_begin_with_a_dot(shell: Shell) -> None:
    assert shell.ls().value == {"current_directory_content": ["docs", "empty", "n.txt"]}
    assert shell.ls(a=True).value == {"current_directory_content": ["docs", "empty", "n.txt", ".hidden"]}


def test_files_and_directories_are_made_once(shell: Shell) -> None:
    assert shell.touch(file_name="new").text == "None"
    assert shell.mkdir(dir_name="made").text == "None"
    assert shell.tree["home"]["new"] == ""
    assert shell.tree["home"]["made"] == {}
    assert shell.touch(file_name="made").error
    assert shell.mkdir(dir_name="new").error


@pytest.mark.parametrize("name", ["a/b", "a|b", "a?", "a*", "a:b", 'a"', "<a>", "100%", "a\\b", "x" * 1_001, None, 5])
def test_some_characters_and_lengths_are_refused_in_names(shell: Shell, name: Any) -> None:
    before = copy.deepcopy(shell.tree)
    assert shell.touch(file_name=name).error
    assert shell.mkdir(dir_name=name).error
    assert shell.tree == before


def test_echo_writes_to_a_file_that_exists_and_shows_text_without_one(shell: Shell) -> None:
    assert shell.echo(content="hello").text == '{"terminal_output": "hello"}'
    assert shell.echo(content="hello", file_name="n.txt").text == "None"
    assert shell.cat(file_name="n.txt").text == '{"file_content": "hello"}'
    assert shell.echo(content="hello", file_name="missing").error
    assert shell.echo(content="hello", file_name="docs").error


def test_content_that_is_no_text_is_kept_and_can_only_be_shown(shell: Shell) -> None:
    content = {"a": [1]}
    shell.echo(content=content, file_name="n.txt")
    content["a"].append(2)
    assert shell.cat(file_name="n.txt").text == '{"file_content": {"a": [1]}}'
    assert shell.tree["home"]["n.txt"] == ("content", {"a": [1]})
    assert shell.wc(file_name="n.txt").error
    assert shell.du().error


def test_text_commands_read_a_file(shell: Shell) -> None:
    shell.cd(folder="docs")
    assert shell.sort(file_name="a.txt").value == {"sorted_content": "a\nb\nb c"}
    assert shell.tail(file_name="a.txt", lines=2).value == {"last_lines": "a\nb c"}
    assert shell.grep(file_name="a.txt", pattern="b").value == {"matching_lines": ["b", "b c"]}
    assert shell.grep(file_name="a.txt", pattern="b.c").value == {"matching_lines": []}
    assert shell.wc(file_name="a.txt").value == {"count": 3, "type": "lines"}
    assert shell.wc(file_name="a.txt", mode="w").value == {"count": 4, "type": "words"}
    assert shell.wc(file_name="a.txt", mode="c").value == {"count": 8, "type": "characters"}
    assert shell.wc(file_name="a.txt", mode="x").error


def test_diff_compares_line_by_line_as_far_as_both_go(shell: Shell) -> None:
    shell.touch(file_name="m")
    shell.echo(content="one two\nfour\nfive", file_name="m")
    assert shell.diff(file_name1="n.txt", file_name2="m").value == {"diff_lines": "- three\n+ four"}
    assert shell.diff(file_name1="n.txt", file_name2="missing").error


def test_find_goes_through_everything_below(shell: Shell) -> None:
    assert shell.find(path="docs").value == {"matches": ["docs/a.txt", "docs/deep", "docs/deep/x"]}
    assert shell.find(name="e").value == {"matches": ["./docs/deep", "./empty", "./.hidden"]}
    shell.cd(folder="docs")
    assert shell.find(path="/empty").value == {"matches": []}
    assert shell.find(path="..").error


def test_du_adds_up_what_is_below(shell: Shell) -> None:
    assert shell.du().value == {"disk_usage": "22 bytes"}
    assert shell.du(human_readable=True).value == {"disk_usage": "22.00 B"}


def test_rm_takes_whole_directories_and_rmdir_only_empty_ones(shell: Shell) -> None:
    assert shell.rmdir(dir_name="docs").error
    assert shell.rmdir(dir_name="empty").text == """{"result": "'empty' removed"}"""
    assert shell.rm(file_name="docs").text == """{"result": "'docs' removed"}"""
    assert list(shell.tree["home"]) == ["n.txt", ".hidden"]
    assert shell.rm(file_name="docs").error


def test_mv_renames_or_moves_into_a_directory(shell: Shell) -> None:
    assert shell.mv(source="n.txt", destination="m").text == """{"result": "'n.txt' moved to 'm'"}"""
    assert shell.mv(source="m", destination="docs").text == """{"result": "'m' moved to 'docs/m'"}"""
    assert shell.tree["home"]["docs"]["m"] == "one two\nthree"
    assert shell.mv(source=".hidden", destination="docs/m").error
    assert shell.mv(source="missing", destination="docs").error


def test_cp_copies_a_file_whose_copy_is_its_own(shell: Shell) -> None:
    assert shell.cp(source="n.txt", destination="docs").text == """{"result": "'n.txt' copied to 'docs/n.txt'"}"""
    shell.echo(content="changed", file_name="n.txt")
    assert shell.tree["home"]["docs"]["n.txt"] == "one two\nthree"
    assert shell.cp(source="n.txt", destination="docs").error


def test_a_directory_is_not_copied_into_itself(shell: Shell) -> None:
    before = copy.deepcopy(shell.tree)
    assert shell.cp(source="docs", destination="docs").error
    assert shell.tree == before
    assert shell.find().value["matches"][0] == "./docs"
    assert shell.du().value == {"disk_usage": "22 bytes"}


def test_no_way_round_puts_a_directory_into_itself(shell: Shell) -> None:
    shell.cp(source="docs", destination="twin")  # both hold the same `deep`
    shell.cd(folder="docs")
    assert shell.mv(source="deep", destination="deep").error
    assert shell.ls().value == {"current_directory_content": ["a.txt", "deep"]}
    assert shell.backend.state_texts()


def test_a_change_that_is_refused_leaves_the_order_of_entries(shell: Shell) -> None:
    before = shell.ls(a=True).text
    shell.cp(source="docs", destination="twin")
    shell.rm(file_name="twin")
    assert shell.cp(source="docs", destination="docs").error
    assert shell.ls(a=True).text == before


def test_copies_of_copies_end_where_there_is_no_room() -> None:
    shell = Shell({"root": {"w": directory(d=directory(f=file("x" * 1_000)))}})
    results: list[OperationResult] = []
    for _ in range(40):  # each round doubles what is below d
        results.append(shell.cp(source="d", destination="e"))
        shell.mkdir(dir_name="b")
        shell.mv(source="d", destination="b")
        results.append(shell.mv(source="e", destination="b"))
        shell.mv(source="b", destination="d")
    assert any(result.error for result in results)
    assert len(shell.find().text) < 2 * MAX_CHARACTERS


def test_directories_end_at_a_depth() -> None:
    shell = Shell({})
    for _ in range(2 * MAX_DEPTH):
        shell.mkdir(dir_name="d")
        shell.cd(folder="d")
    assert shell.mkdir(dir_name="d").error
    assert shell.pwd().text.count("/d") <= MAX_DEPTH
    assert shell.backend.state_texts()


def test_entries_and_text_end_at_a_limit() -> None:
    shell = Shell({"root": {"w": directory(**{f"f{number}": file() for number in range(MAX_ENTRIES)})}})
    assert shell.touch(file_name="one more").error
    shell.rm(file_name="f1")
    assert not shell.touch(file_name="one more").error
    assert shell.echo(content="x" * MAX_CHARACTERS, file_name="f2").error
    assert shell.tree["w"]["f2"] == ""


@pytest.mark.parametrize(
    ("root", "where"),
    [
        (None, "root"),
        ({}, "root"),
        ({"w": {}}, "root.w"),
        ({"w": file("x")}, "root.w"),
        ({"w": directory(a={"type": "link"})}, "root.w.a"),
        ({"w": directory(a={"content": "x"})}, "root.w.a"),
        ({"w": directory(a={"type": "file"})}, "root.w.a"),
        ({"w": directory(b=directory(a=[]))}, "root.w.b.a"),
    ],
)
def test_a_configuration_that_cannot_be_used_says_where(root: Any, where: str) -> None:
    with pytest.raises(DataError, match=where.replace(".", r"\.")):
        Shell({"root": root})


def test_a_configuration_that_holds_itself_or_is_too_large_is_refused() -> None:
    endless = directory()
    endless["contents"]["again"] = endless
    with pytest.raises(DataError, match="nested deeper"):
        Shell({"root": {"w": endless}})
    with pytest.raises(DataError, match="larger"):
        Shell({"root": {"w": directory(f=file("x" * (MAX_CHARACTERS + 1)))}})


def test_the_configuration_stays_as_it_is() -> None:
    config = copy.deepcopy(HOME)
    shell = Shell(config)
    shell.rm(file_name="docs")
    shell.echo(content="x", file_name="n.txt")
    assert config == HOME


def test_long_context_pads_files_and_lowest_directories_from_copies_of_the_constants() -> None:
    constants: Any = {
        "FILE_CONTENT_EXTENSION": " and more",
        "POPULATE_FILE_EXTENSION": ["p1", "p2"],
        "FILES_TAIL_USED": ["log.txt"],
    }
    before = copy.deepcopy(constants)
    config: Any = {"root": {"w": directory(a=file("A"), d=directory(**{"log.txt": file("L"), "p1": file("own")}))}}
    trees = []
    for _ in range(2):
        simulator = GorillaFileSystem()
        simulator.load(config, long_context=constants)
        backend = Backend({"GorillaFileSystem": simulator})
        trees.append(copy.deepcopy(backend.states()["GorillaFileSystem"]))
        backend.call(FunctionCall("rm", {"file_name": "d"}))
    assert (
        trees[0]
        == trees[1]
        == {
            "long_context": True,
            "root": {"w": {"a": "A and more", "d": {"log.txt": "L", "p1": "own and more", "p2": ""}}},
        }
    )
    assert constants == before


def test_file_systems_in_several_threads_do_not_meet() -> None:
    trees: list[Any] = []

    def work(number: int) -> None:
        shell = Shell()
        for round_ in range(200):
            shell.touch(file_name=f"{number}-{round_}")
        trees.append(shell.tree["home"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(len(tree) for tree in trees) == [204] * 8
    assert all(len({name.partition("-")[0] for name in tree if "-" in name}) == 1 for tree in trees)


COMMANDS = st.sampled_from(list(GorillaFileSystem.operations()))
NAMES = (
    st.sampled_from(["docs", "deep", "empty", "x", "a.txt", ".", "..", "/", "", "twin"])
    | st.none()
    | st.text(max_size=3)
)


@given(st.lists(st.tuples(COMMANDS, NAMES, NAMES), max_size=60))
def test_whatever_is_called_the_tree_stays_finite(calls: list[tuple[str, Any, Any]]) -> None:
    shell = Shell()
    for command, first, second in calls:
        parameters = GorillaFileSystem.operations()[command].parameters
        shell.backend.call(FunctionCall(command, dict(zip(parameters, (first, second), strict=False))))
    assert len(str(shell.backend.state_texts())) < MAX_CHARACTERS
    assert copy.deepcopy(shell.tree) == shell.tree
