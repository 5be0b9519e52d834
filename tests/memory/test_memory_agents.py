"""A model as a memory agent: the window of each prompt, and the results of every sort of answer."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.agent_parts import NOON_US, Words, contents
from tests.endpoint_parts import HandClock, definition
from tests.fault_server import FaultServer, Step, answer

from tunecheck import ConfigurationError, ContentFilterError, ReplyError
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, OpenAIEndpoint, Usage, load_endpoint
from tunecheck.plugins import JSON
from tunecheck_memory import Outcome
from tunecheck_memory._agents import MAX_REPLY_CHARACTERS, EndpointAgent
from tunecheck_memory._tokens import MESSAGE_TOKENS

WORDS = st.text(alphabet="ab ", max_size=60)
TALK = st.lists(st.tuples(WORDS, WORDS), max_size=30)


class Asked(Endpoint):
    """An endpoint in this process that remembers its requests and answers by plan."""

    kind = "asked"
    name = "asked"

    def __init__(self, *answers: Completion | Exception) -> None:
        self.requests: list[ChatRequest] = []
        self._answers = list(answers)

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        planned = self._answers.pop(0) if self._answers else Completion(f"reply {len(self.requests)}")
        if isinstance(planned, Exception):
            raise planned
        return planned

    def settings(self) -> dict[str, JSON]:
        return {}

    @property
    def last(self) -> list[str]:
        """The texts of the last prompt."""
        return contents(self.requests[-1].messages)


def tokens(messages: Sequence[Any]) -> int:
    return sum(len(text.split()) + MESSAGE_TOKENS for text in contents(messages))


async def say(agent: EndpointAgent, *messages: str) -> list[Outcome]:
    return [await agent.reply(text, key=f"k{index}", at_us=NOON_US) for index, text in enumerate(messages)]


async def test_what_the_model_thought_is_kept_and_is_no_part_of_the_conversation() -> None:
    endpoint = Asked(Completion("one it is", reasoning="one?"))
    replies = await say(EndpointAgent(endpoint, Words()), "one", "two")
    assert (replies[0].text, replies[0].reasoning) == ("one it is", "one?")
    assert endpoint.last == ["one", "one it is", "two"]


# -- the window -------------------------------------------------------------------------------------------------------


async def test_without_a_limit_every_prompt_holds_the_whole_conversation() -> None:
    endpoint = Asked()
    await say(EndpointAgent(endpoint, Words()), "one", "two", "three")
    assert endpoint.last == ["one", "reply 1", "two", "reply 2", "three"]
    assert [message["role"] for message in endpoint.requests[-1].messages] == ["user", "assistant"] * 2 + ["user"]


async def test_the_oldest_exchange_goes_whole_where_a_message_finds_no_room() -> None:
    endpoint = Asked()
    # An exchange takes 1 + 2 words and 2 · 4 tokens around them: 11. Two of them and a message (5) make 27.
    await say(EndpointAgent(endpoint, Words(), 27), "one", "two", "three", "four")
    assert endpoint.last == ["two", "reply 2", "three", "reply 3", "four"]
    await say(EndpointAgent(other := Asked(), Words(), 26), "one", "two", "three", "four")
    assert other.last == ["three", "reply 3", "four"]


async def test_a_message_larger_than_the_window_is_sent_whole_and_alone() -> None:
    endpoint = Asked()
    large = " ".join(["word"] * 100)
    agent = EndpointAgent(endpoint, Words(), 30)
    await say(agent, "one", large)
    assert endpoint.last == [large]
    await say(agent, "and now")
    assert endpoint.last == ["and now"]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_window_without_room_is_a_mistake_of_the_configuration(limit: int) -> None:
    with pytest.raises(ConfigurationError, match="must be at least 1 token"):
        EndpointAgent(Asked(), Words(), limit)


@given(TALK, st.integers(8, 120))
def test_a_prompt_never_exceeds_the_limit_and_holds_the_newest(talk: list[tuple[str, str]], limit: int) -> None:
    endpoint = Asked(*(Completion(reply) for _, reply in talk))
    asyncio.run(say(EndpointAgent(endpoint, Words(), limit), *(message for message, _ in talk)))
    said: list[str] = []
    for (message, reply), request in zip(talk, endpoint.requests, strict=True):
        prompt = request.messages
        assert tokens(prompt) <= max(limit, tokens([{"content": message}]))
        texts = contents(prompt)
        kept = texts[:-1]
        assert texts == [*said[len(said) - len(kept) :], message]
        assert len(kept) % 2 == 0
        said += [message, reply]


@given(
    st.lists(st.tuples(WORDS, WORDS, st.sampled_from(["said", "suggested", "declined", "reset"])), max_size=30),
    st.data(),
)
def test_a_conversation_of_a_journal_has_the_same_window(talk: list[tuple[str, str, str]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(talk)))
    unbroken, resumed = asyncio.run(_prompts(talk, 0)), asyncio.run(_prompts(talk, cut))
    assert resumed == unbroken[len(unbroken) - len(resumed) :]


async def _prompts(talk: list[tuple[str, str, str]], journaled: int) -> list[list[str]]:
    """The prompts of a conversation that reuses its beginning from a journal."""
    endpoint = Asked()
    agent = EndpointAgent(endpoint, Words(), 40)
    for number, (message, reply, how) in enumerate(talk):
        if how == "reset":
            if number < journaled:
                agent.observe_reset()
            else:
                await agent.reset(f"k{number}", NOON_US)
        elif number < journaled:
            agent.observe(message, "" if how == "declined" else reply, declined=how == "declined")
        else:
            endpoint._answers = [ContentFilterError("no") if how == "declined" else Completion(reply)]
            suggested = reply if how == "suggested" else None
            got = await agent.reply(message, key=f"k{number}", at_us=NOON_US, suggested=suggested)
            assert got.text == ("" if how == "declined" else reply)
    return [contents(request.messages) for request in endpoint.requests]


async def test_a_text_is_counted_as_often_however_long_the_conversation() -> None:
    tokenizer = Words()
    endpoint = Asked()
    await say(EndpointAgent(endpoint, tokenizer, 60), *(f"message {number}" for number in range(300)))
    assert len(tokenizer.counted) == 300 * (3 + 1), "a message three times, a reply once"
    # An exchange takes 12, a message 6: (60 - 6) // 12 exchanges and the message.
    assert max(len(request.messages) for request in endpoint.requests) == 2 * 4 + 1


# -- what comes back --------------------------------------------------------------------------------------------------


async def test_a_reply_carries_what_the_service_said_of_it() -> None:
    endpoint = Asked(Completion("hi", usage=Usage(12, 3), latency_ms=40.0, simulated=True))
    (reply,) = await say(EndpointAgent(endpoint, Words()), "hello")
    assert reply == Outcome(NOON_US, "hi", 40.0, 12, 3, simulated=True)


async def test_a_suggested_reply_is_adopted_without_asking() -> None:
    endpoint = Asked()
    agent = EndpointAgent(endpoint, Words())
    reply = await agent.reply("Q: 1+1, A: 2", key="k", at_us=NOON_US, suggested='["2"]')
    assert reply == Outcome(NOON_US, '["2"]', adopted=True)
    assert endpoint.requests == []
    await say(agent, "and?")
    assert endpoint.last == ["Q: 1+1, A: 2", '["2"]', "and?"]


async def test_a_declined_message_is_answered_with_nothing_and_not_sent_again() -> None:
    endpoint = Asked(Completion("a"), ContentFilterError("declined"))
    agent = EndpointAgent(endpoint, Words())
    replies = await say(agent, "one", "something terrible", "three")
    assert replies[1] == Outcome(replies[1].at_us, "", declined=True, asked=replies[1].asked)
    assert replies[1].asked > len("oneasomething terrible")
    assert endpoint.last == ["one", "a", "three"]


async def test_a_model_that_says_nothing_keeps_what_it_was_told() -> None:
    endpoint = Asked(Completion(None), Completion(""))
    await say(EndpointAgent(endpoint, Words()), "one", "two", "three")
    assert endpoint.last == ["one", "", "two", "", "three"]


async def test_an_endpoint_that_needs_a_rows_column_is_no_agent() -> None:
    with pytest.raises(ConfigurationError, match=r"endpoint 'asked' cannot be an agent: .*column"):
        await say(EndpointAgent(Asked(ValueError("names a column")), Words()), "one")


async def test_a_reply_beyond_all_measure_is_an_error() -> None:
    agent = EndpointAgent(Asked(Completion("x" * (MAX_REPLY_CHARACTERS + 1))), Words())
    with pytest.raises(ReplyError, match="1,048,577 characters"):
        await say(agent, "one")
    (longest,) = await say(EndpointAgent(Asked(Completion("x" * MAX_REPLY_CHARACTERS)), Words()), "one")
    assert len(longest.text or "") == MAX_REPLY_CHARACTERS


async def test_half_a_character_is_replaced() -> None:
    endpoint = Asked(Completion("a\ud83d b \ud83d\ude00"))
    (reply,) = await say(EndpointAgent(endpoint, Words()), "one")
    assert reply.text == "a\ufffd b 😀"


async def test_a_clock_beyond_the_calendar_is_a_mistake_of_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match="9999"):
        await EndpointAgent(Asked(), Words()).reply("x", key="k", at_us=10**18)


# -- over HTTP --------------------------------------------------------------------------------------------------------


def chat(text: object, **more: object) -> Step:
    return answer({"choices": [{"message": {"role": "assistant", "content": text}}], **more})


def openai_agent(server: FaultServer, **values: Any) -> EndpointAgent:
    given = definition(kind="openai", model="m", url=server.url.replace("/score", "/v1"), timeout_s=1, **values)
    return EndpointAgent(OpenAIEndpoint(given, clock=HandClock()), Words(), 100)


async def test_each_request_tells_the_time_and_its_key() -> None:
    with FaultServer(lambda seen, attempt: chat("hi")) as server:
        agent = openai_agent(server)
        await agent.reply("one", key="run/1", at_us=NOON_US)
        await agent.reply("two", key="run/2", at_us=NOON_US + 3_600_000_001)
    sent = [(seen.key, seen.headers["tunecheck-time"]) for seen in server.requests]
    assert sent == [("run/1", "2026-03-05T12:00:00Z"), ("run/2", "2026-03-05T13:00:00.000001Z")]
    assert "time" not in json.dumps(server.requests[1].json())


async def test_a_template_can_send_the_time_in_the_body() -> None:
    template = {"chat": "${messages}", "now": "${time}", "say": "it is ${time}"}
    with FaultServer(lambda seen, attempt: answer({"result": "hi"})) as server:
        endpoint = load_endpoint({"kind": "azure_ml", "url": server.url, "request": template, "response": "result"})
        await say(EndpointAgent(endpoint, Words()), "one")
        await endpoint.complete(ChatRequest([{"role": "user", "content": "without"}]))
        await endpoint.close()
    assert server.requests[0].json() == {
        "chat": [{"role": "user", "content": "one"}],
        "now": "2026-03-05T12:00:00Z",
        "say": "it is 2026-03-05T12:00:00Z",
    }
    assert server.requests[1].json() == {"chat": [{"role": "user", "content": "without"}], "say": "it is "}
    assert "tunecheck-time" not in server.requests[1].headers
