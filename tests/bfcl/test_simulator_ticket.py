"""TicketAPI: what it does, and that it is what the reference is."""

from __future__ import annotations

import pytest
from tests.simulator_differential import ground_truth_cases
from tests.simulator_services import awkward_arguments, backend, call, differences, mismatched_definitions

from tunecheck import DataError
from tunecheck.simulators import Backend
from tunecheck_bfcl._services._ticket_api import TicketAPI


def logged_in() -> Backend:
    return backend(TicketAPI, {"current_user": "ada"})


def test_a_ticket_is_opened_in_the_name_of_the_user_and_numbered() -> None:
    started = logged_in()
    first, second = (call(started, "create_ticket", title=title) for title in ("one", "two"))
    assert first.text == (
        '{"id": 1, "title": "one", "description": "", "status": "Open", "priority": 1, "created_by": "ada"}'
    )
    assert isinstance(second.value, dict)
    assert second.value["id"] == 2
    assert started.states()["TicketAPI"]["ticket_counter"] == 3


def test_nobody_opens_or_lists_tickets_without_logging_in() -> None:
    started = backend(TicketAPI, {})
    assert call(started, "create_ticket", title="one").error
    assert call(started, "get_user_tickets").error


@pytest.mark.parametrize(("name", "password", "success"), [("ada", "x", True), ("", "x", False), ("ada", "", False)])
def test_logging_in_takes_any_name_and_password_that_are_not_empty(name: str, password: str, success: bool) -> None:
    started = backend(TicketAPI, {})
    assert call(started, "ticket_login", username=name, password=password).value == {"success": success}
    assert call(started, "ticket_get_login_status").value == {"login_status": success}
    assert call(started, "logout").value == {"success": success}


@pytest.mark.parametrize("priority", [0, 6, -1, 10**400])
def test_a_priority_lies_between_one_and_five(priority: int) -> None:
    started = logged_in()
    assert call(started, "create_ticket", title="one", priority=priority).error
    assert started.states()["TicketAPI"]["ticket_queue"] == []


def test_a_ticket_is_resolved_once_and_closed_once_in_either_order() -> None:
    started = logged_in()
    call(started, "create_ticket", title="one")
    assert not call(started, "resolve_ticket", ticket_id=1, resolution="done").error
    assert call(started, "resolve_ticket", ticket_id=1, resolution="done").error
    assert not call(started, "close_ticket", ticket_id=1).error
    assert call(started, "close_ticket", ticket_id=1).error
    assert not call(started, "resolve_ticket", ticket_id=1, resolution="again").error


def test_editing_leaves_out_what_is_null_and_refuses_what_is_no_field() -> None:
    started = logged_in()
    call(started, "create_ticket", title="one")
    assert not call(started, "edit_ticket", ticket_id=1, updates={"title": None, "status": "Waiting"}).error
    refused = call(started, "edit_ticket", ticket_id=1, updates={"id": 5, "created_by": "eve"})
    assert refused.error
    assert "created_by, id" in refused.text
    shown = call(started, "get_ticket", ticket_id=1).value
    assert isinstance(shown, dict)
    assert (shown["id"], shown["title"], shown["status"]) == (1, "one", "Waiting")


def test_tickets_are_listed_by_status_in_any_case_of_letters() -> None:
    started = logged_in()
    for title in ("one", "two"):
        call(started, "create_ticket", title=title)
    call(started, "close_ticket", ticket_id=2)
    listed = call(started, "get_user_tickets", status="CLOSED").value
    assert isinstance(listed, list)
    assert [each["title"] for each in listed] == ["two"]


def test_what_is_handed_out_is_not_the_ticket_itself() -> None:
    started = logged_in()
    made = call(started, "create_ticket", title="one").value
    assert isinstance(made, dict)
    made["title"] = "changed outside"
    assert "changed" not in call(started, "get_ticket", ticket_id=1).text


def test_the_configuration_is_copied_and_two_instances_share_nothing() -> None:
    config = {"ticket_queue": [{"id": 7, "status": "Open"}]}
    started, other = backend(TicketAPI, config), backend(TicketAPI, config)
    call(started, "close_ticket", ticket_id=7)
    assert config == {"ticket_queue": [{"id": 7, "status": "Open"}]}
    assert other.states()["TicketAPI"]["ticket_queue"] == [{"id": 7, "status": "Open"}]


def test_a_queue_that_is_no_list_is_named() -> None:
    with pytest.raises(DataError, match=r"initial_config\.TicketAPI\.ticket_queue is text; a list is needed"):
        TicketAPI().load({"ticket_queue": "none"})


def test_tool_definitions_match_the_documents_of_the_data() -> None:
    assert mismatched_definitions(TicketAPI, "ticket_api.json") == []


def test_hostile_arguments_are_answered() -> None:
    for name, arguments in awkward_arguments(TicketAPI):
        started = logged_in()
        assert call(started, name, **arguments).text
        assert started.state_texts()


def test_the_ground_truth_of_all_entries_gives_what_the_reference_gives() -> None:
    assert differences(TicketAPI, ground_truth_cases(TicketAPI)) == []
