"""The speaker for the user: the data set's turns, or a simulated user in their place."""

from collections.abc import Sequence

import pytest
from tests.conversation_parts import had, said, serving, shelf_row

from tunecheck import CallContext, Row
from tunecheck.episodes import ConversationTarget, Message, OwnWording

pytestmark = pytest.mark.usefixtures("shelf")


class Insisting:
    """Asks again until the model says please."""

    def __init__(self, row: Row) -> None:
        self.row = row

    async def say(self, turn: int, so_far: Sequence[Message], context: CallContext) -> Sequence[Message] | None:
        if so_far and so_far[-1].get("content") == "Please.":
            return None
        return [{"role": "user", "content": f"Say please ({turn})."}]


async def test_a_user_of_one_s_own_speaks_until_it_has_no_more_to_say() -> None:
    output, server = await had(["No.", "No!", "Please."], user=Insisting)
    assert output["result"] == [["No."], ["No!"], ["Please."]]
    assert server.requests[-1]["messages"][-1]["content"] == "Say please (2)."


async def test_a_user_who_never_stops_is_stopped() -> None:
    output, server = await had(lambda _: "No.", user=Insisting)
    assert len(output["result"]) == len(server.requests) == 200


class Silent(Insisting):
    async def say(self, turn: int, so_far: Sequence[Message], context: CallContext) -> Sequence[Message] | None:
        return []


async def test_a_user_who_says_nothing_is_the_row_s_error() -> None:
    with pytest.raises(ValueError, match="turn 0 has neither a user message nor a new function"):
        await had([], user=Silent)


def test_answers_depend_on_the_whole_row_where_somebody_else_speaks() -> None:
    with serving([]) as server:
        row = shelf_row(mood="bad")
        assert "mood" not in str(ConversationTarget(server.endpoint()).inputs(row))
        assert "mood" in str(ConversationTarget(server.endpoint(), user=Insisting).inputs(row))


def test_the_fingerprint_tells_settings_apart_that_answers_depend_on() -> None:
    class Other(OwnWording):
        def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
            return "done"

    with serving([]) as server:
        targets = [
            ConversationTarget(server.endpoint()),
            ConversationTarget(server.endpoint(), mode="text"),
            ConversationTarget(server.endpoint(), step_limit=3),
            ConversationTarget(server.endpoint(), parameters={"temperature": 0}),
            ConversationTarget(server.endpoint(), wording=Other()),
            ConversationTarget(server.endpoint(model="n")),
        ]
        prints = [target.fingerprint() for target in targets]
        assert len({*prints}) == len(targets)
        assert None not in prints
        assert ConversationTarget(server.endpoint(timeout_s=5)).fingerprint() == prints[0]


async def test_parameters_are_laid_over_the_endpoint_s_own() -> None:
    definition = {"parameters": {"temperature": 1, "seed": 1}}
    _, server = await had(["Hi."], shelf_row(said("Hello.")), definition, parameters={"temperature": 0})
    assert (server.requests[0]["temperature"], server.requests[0]["seed"]) == (0, 1)
