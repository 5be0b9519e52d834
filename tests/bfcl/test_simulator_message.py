"""MessageAPI: users, messages, ids drawn from a seed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tunecheck import DataError
from tunecheck.calls import FunctionCall
from tunecheck.simulators import Backend
from tunecheck_bfcl._services._message_api import MessageAPI


class Workspace:
    """A backend with operations as methods."""

    def __init__(self, **config: Any) -> None:
        simulator = MessageAPI()
        simulator.load(config)
        self.backend = Backend({"MessageAPI": simulator})

    def __getattr__(self, operation: str) -> Any:
        return lambda **arguments: self.backend.call(FunctionCall(operation, arguments))

    @property
    def state(self) -> Any:
        return self.backend.states()["MessageAPI"]


@pytest.fixture
def workspace() -> Workspace:
    return Workspace(current_user="USR001")


def test_without_a_configuration_four_users_have_three_messages_and_nobody_is_logged_in() -> None:
    workspace = Workspace()
    assert workspace.list_users().text == '{"user_list": ["Alice", "Bob", "Catherine", "Daniel"]}'
    assert workspace.message_get_login_status().text == '{"login_status": false}'
    assert (workspace.state["user_count"], workspace.state["message_count"]) == (4, 3)


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("send_message", {"receiver_id": "USR002", "message": "hi"}),
        ("delete_message", {"receiver_id": "USR002"}),
        ("view_messages_sent", {}),
        ("search_messages", {"keyword": "a"}),
        ("get_message_stats", {}),
    ],
)
def test_messages_need_a_user_who_is_logged_in(operation: str, arguments: dict[str, Any]) -> None:
    workspace = Workspace()
    before = copy.deepcopy(workspace.state)
    assert getattr(workspace, operation)(**arguments).error
    assert workspace.state == before
    assert workspace.message_login(user_id="USR003").value["login_status"] is True
    assert not getattr(workspace, operation)(**arguments).error


def test_a_login_with_an_unknown_id_changes_nothing(workspace: Workspace) -> None:
    assert workspace.message_login(user_id="USR999").text == (
        '{"login_status": false, "message": "User ID \'USR999\' not found."}'
    )
    assert workspace.state["current_user"] == "USR001"


def test_message_ids_come_from_the_seed_that_the_data_rest_on(workspace: Workspace) -> None:
    sent = [workspace.send_message(receiver_id="USR002", message=text) for text in ("one", "two", "three")]
    # as BFCL's data have them
    assert [each.value["message_id"]["new_id"] for each in sent] == [67410, 41772, 24547]
    assert workspace.state["generated_ids"] == {67410, 41772, 24547}
    assert workspace.state["message_count"] == 6


def test_a_message_needs_a_receiver_who_is_there(workspace: Workspace) -> None:
    assert workspace.send_message(receiver_id="USR009", message="hi").error
    assert workspace.state["generated_ids"] == set()


def test_messages_are_shown_by_receiver_and_found_in_any_case(workspace: Workspace) -> None:
    workspace.send_message(receiver_id="USR002", message="Lunch?")
    assert workspace.view_messages_sent().value["messages"]["USR002"][-1] == "Lunch?"
    assert workspace.search_messages(keyword="lUNCH").value == {
        "results": [{"receiver_id": "USR002", "message": "Lunch?"}]
    }
    assert workspace.get_message_stats().value == {"stats": {"received_count": 4, "total_contacts": 3}}


def test_deleting_takes_a_receivers_latest_message(workspace: Workspace) -> None:
    workspace.send_message(receiver_id="USR003", message="new")
    assert not workspace.delete_message(receiver_id="USR003").error
    assert workspace.search_messages(keyword="new").value == {"results": []}
    assert not workspace.delete_message(receiver_id="USR003").error
    assert workspace.delete_message(receiver_id="USR003").error


def test_a_contact_gets_the_next_id_and_a_name_is_taken_once(workspace: Workspace) -> None:
    assert workspace.add_contact(user_name="Zoë").value["user_id"] == "USR005"
    assert workspace.get_user_id(user="Zoë").text == '{"user_id": "USR005"}'
    assert workspace.add_contact(user_name="Zoë").error


def test_an_id_that_is_taken_is_an_error_and_counted_all_the_same() -> None:
    """The count moves before the id is looked at: so do the states that BFCL compares."""
    workspace = Workspace(user_count=2)
    assert workspace.add_contact(user_name="Zoë").error
    assert workspace.state["user_count"] == 3


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"user_map": []}, "user_map"),
        ({"inbox": None}, "inbox"),
        ({"inbox": [{}]}, "inbox"),
        ({"inbox": ["hello"]}, "inbox"),
        ({"user_count": "4"}, "user_count"),
        ({"user_count": True}, "user_count"),
        ({"message_count": 1.5}, "message_count"),
        ({"generated_ids": ["x"]}, "generated_ids"),
        ({"random_seed": "x"}, "random_seed"),
    ],
)
def test_a_configuration_that_cannot_be_used_says_which_part(config: dict[str, Any], key: str) -> None:
    with pytest.raises(DataError, match=rf"initial_config\.MessageAPI\.{key}"):
        Workspace(**config)


def test_ids_of_the_configuration_are_not_drawn_again() -> None:
    workspace = Workspace(current_user="USR001", generated_ids=[67410])
    assert workspace.send_message(receiver_id="USR002", message="x").value["message_id"] == {"new_id": 41772}


def test_attempts_share_neither_their_configuration_nor_their_defaults() -> None:
    config: dict[str, Any] = {"current_user": "USR001", "inbox": [{"USR002": ["hi"]}]}
    before = copy.deepcopy(config)
    one, other = Workspace(**config), Workspace(**config)
    one.send_message(receiver_id="USR002", message="x")
    one.add_contact(user_name="Zoë")
    assert config == before
    assert other.state["inbox"] == [{"USR002": ["hi"]}]
    assert "Zoë" not in other.state["user_map"]
    assert "Zoë" not in Workspace().state["user_map"]


def test_a_message_that_the_caller_changes_later_stays_as_it_was_sent(workspace: Workspace) -> None:
    message = ["hi"]
    workspace.send_message(receiver_id="USR002", message=message)
    message.append("again")
    assert workspace.state["inbox"][-1] == {"USR002": ["hi"]}


def test_sending_ends_before_the_ids_run_out() -> None:
    workspace = Workspace(current_user="USR001", generated_ids=list(range(10_000, 60_000)))
    assert workspace.send_message(receiver_id="USR002", message="x").error
