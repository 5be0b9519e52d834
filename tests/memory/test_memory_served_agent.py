"""The served memory agent: what it remembers, what it never remembers twice, and how far its memory goes."""

import asyncio
import http.client
import io
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.agent_parts import NOON, serving, told
from tests.serve_parts import Starter, got, posted, servers
from tests.tables import cases

from tunecheck_memory._served_agent import MAX_CONVERSATIONS, MAX_NOTES, AgentMessage, NoteAgent


@pytest.fixture
async def start() -> AsyncIterator[Starter]:
    async with servers() as begin:
        yield begin


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """One real process for the tests that each keep to their own conversations."""
    with serving() as url:
        yield url


def recalled(*talk: str | tuple[str, float], agent: NoteAgent | None = None, conversation: str = "c") -> list[str]:
    """An agent's replies to messages, each with its time in hours after noon."""

    async def through() -> list[str]:
        known = agent or NoteAgent()
        timed = [(each, 0.0) if isinstance(each, str) else each for each in talk]
        return [known.reply(AgentMessage(conversation, text, NOON + timedelta(hours=hours))) for text, hours in timed]

    return asyncio.run(through())


# -- what it remembers ------------------------------------------------------------------------------------------------


@cases("memory")
def test_a_question_is_answered_with_the_best_fitting_note(told_before: list[str], question: str, answer: str) -> None:
    assert recalled(*told_before, question)[-1] == answer


def test_a_question_about_a_time_ago_is_answered_by_the_clock() -> None:
    jokes = [("Joke one: a duck.", 0.0), ("Joke two: a goose.", 1.5), ("Joke three: a hen.", 4.0)]
    assert (
        recalled(*jokes, ("Which joke did I tell you about 3 hours 30 minutes  ago?", 5.0))[-1] == "Joke two: a goose."
    )
    assert recalled(*jokes, ("Which joke did I tell you 5 hours ago?", 5.0))[-1] == "Joke one: a duck."
    assert recalled(*jokes, ("Which joke did I tell you 999999 weeks ago?", 5.0))[-1] == "Joke one: a duck."


async def test_conversations_do_not_mix_and_are_reset_alone(served: str) -> None:
    for name, town in (("ada", "Oslo"), ("bob", "Rome")):
        await told(served, "/reply", conversation=name, message=f"I live in {town}.")

    async def live(name: str) -> str:
        _, reply, _ = await told(served, "/reply", conversation=name, message="Where do I live?")
        return str(reply["reply"])

    assert (await live("ada"), await live("bob"), await live("eve")) == (
        "I live in Oslo.",
        "I live in Rome.",
        "I do not know.",
    )
    assert (await told(served, "/reset", conversation="ada"))[:2] == (200, {})
    assert (await live("ada"), await live("bob")) == ("I do not know.", "I live in Rome.")


# -- nothing twice ----------------------------------------------------------------------------------------------------


async def test_the_same_key_gives_the_stored_reply_and_is_noted_once(start: Starter) -> None:
    url = await start(NoteAgent())
    say = {"conversation": "c", "message": "My name is Ada. What is my name?", "time": "2026-03-05T12:00:00Z"}
    replies = [await told(url, "/reply", "k1", **say) for _ in range(3)]
    assert [reply[1] for reply in replies] == [{"reply": "I do not know."}] * 3
    assert [reply[2].get("Idempotent-Replayed") for reply in replies] == [None, "true", "true"]
    health = await got(f"{url}/health")
    assert (health["notes"], health["answers"], health["repeats"]) == (1, 3, 2)
    assert (await told(url, "/reply", "k2", **say))[1] == {"reply": "My name is Ada."}


@cases("memory")
async def test_a_key_is_not_for_two_requests(start: Starter, path: str, body: dict[str, Any]) -> None:
    url = await start(NoteAgent())
    await told(url, "/reply", "k1", conversation="c", message="one")
    status, reply, _ = await told(url, path, "k1", **body)
    assert (status, reply["error"]["message"]) == (
        400,
        "this Idempotency-Key was used with another request; send a new key",
    )


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_the_oldest_notes_give_way() -> None:
    agent = NoteAgent()
    recalled("My name is Ada.", " ".join(f"Line {number}." for number in range(MAX_NOTES)), agent=agent)
    assert agent.health()["notes"] == MAX_NOTES
    assert recalled("What is my name?", agent=agent) == ["I do not know."]
    assert recalled(f"What is line {MAX_NOTES - 1}?", agent=agent) == [f"Line {MAX_NOTES - 1}."]


def test_the_conversation_that_was_quiet_for_longest_gives_way() -> None:
    agent = NoteAgent()
    for number in range(MAX_CONVERSATIONS):
        recalled("I am here.", agent=agent, conversation=str(number))
    recalled("Am I here?", agent=agent, conversation="0")
    recalled("I am here.", agent=agent, conversation="one more")
    assert recalled("Who is here?", agent=agent, conversation="0") == ["I am here."]
    assert recalled("Who is here?", agent=agent, conversation="1") == ["I do not know."]
    assert agent.health()["conversations"] == MAX_CONVERSATIONS


async def test_a_message_of_ten_megabytes_is_answered_and_bounded(start: Starter) -> None:
    agent = NoteAgent()
    url = await start(agent)
    for text in ("x" * (10 << 20), "a. " * (3 << 20), "?" * (10 << 20), "\n" * (7 << 20)):
        status, _, _ = await posted(f"{url}/reply", io.BytesIO(json.dumps({"message": text}).encode()))
        assert status == 200
    assert 0 < agent.health()["notes"] <= MAX_NOTES  # type: ignore[operator]


@given(st.lists(st.tuples(st.text(max_size=80), st.datetimes(timezones=st.just(UTC))), max_size=6))
def test_whatever_is_said_is_answered_with_text(talk: list[tuple[str, datetime]]) -> None:
    async def through() -> None:
        agent = NoteAgent()
        for text, at in talk:
            assert isinstance(agent.reply(AgentMessage("c", text, at)), str)
            assert isinstance(agent.reply(AgentMessage("c", f"{text} 3 hours ago?", at)), str)

    asyncio.run(through())


# -- requests that are none -------------------------------------------------------------------------------------------


@cases("memory")
async def test_an_unreadable_request_is_a_400_that_says_why(served: str, path: str, body: Any, says: str) -> None:
    line = http.client.HTTPConnection("127.0.0.1", int(served.rpartition(":")[2]), timeout=10)
    line.request("POST", path, json.dumps(body))
    response = line.getresponse()
    assert response.status == 400
    assert says in json.loads(response.read())["error"]["message"]
    line.close()


# -- the command ------------------------------------------------------------------------------------------------------
