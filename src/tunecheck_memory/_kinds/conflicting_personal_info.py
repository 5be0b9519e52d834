"""Conflicting personal information: a fact about the user changes in passing; a model writes the content."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from msgspec import Meta

from tunecheck import ConfigurationError, ReplyError
from tunecheck.plugins import converted
from tunecheck_memory import Definition, GenerationContext, Kind, read_lenient, scripted_test
from tunecheck_memory._kinds.scripts import read_words

if TYPE_CHECKING:
    from tunecheck.endpoints import Endpoint

ATTEMPTS = 5
"""The most requests for readable content."""

_MOST_CHARACTERS = 20_000

_PROMPT = """\
Write material for a memory test. A person tells about himself or herself, in the first person, in {messages} separate \
chat messages of one to three sentences each. All of them touch on this subject: {subject}. What is said about it \
changes along the way: at least once a later message makes an earlier statement untrue, in passing and without saying \
that something was wrong before. The first messages must hold the outdated statement, a later one the current fact. \
Mention no other names, and neither the person's own name nor favourite colour.
Then write one question in the first person whose answer is the current fact, and that answer in a few words.
Variation number {example}.
Answer with one JSON object and nothing else:
{{"content": ["message", "message"], "question": "question", "answer": "answer"}}"""


class ConflictingPersonalInfo(Kind):
    """Three to five statements and a question that a generator endpoint writes about a subject."""

    name = "conflicting_personal_info"
    title = "Conflicting Personal Info"
    judged = True
    judge_prompt = "memory_conflicting_info"

    def definitions(self, count: int, making: GenerationContext) -> list[Definition]:
        """Make the tests; each asks the generator until a reply is usable.

        Raises:
            ConfigurationError: There is no generator.
            EndpointError: A call to it failed for good, or none of its replies is usable.
        """
        generator = making.generator
        if generator is None:
            raise ConfigurationError(
                "conflicting_personal_info has its content written by a model: give an endpoint with --generator, or "
                "existing definitions with --definitions"
            )

        async def write() -> list[Definition]:
            try:
                return [await self._definition(str(number), making, generator) for number in range(count)]
            finally:
                await generator.close()  # connections belong to this event loop

        with ThreadPoolExecutor(1) as pool:  # the caller's thread may run an event loop already
            return pool.submit(asyncio.run, write()).result()

    async def _definition(self, example: str, making: GenerationContext, generator: Endpoint) -> Definition:
        from tunecheck.endpoints import ChatRequest

        random = making.random(self.title, example)
        subject, messages = random.choice(read_words("personal_subjects")), random.randint(3, 5)
        prompt = _PROMPT.format(messages=messages, subject=subject, example=example)
        problem = ""
        for attempt in range(ATTEMPTS):
            key = f"{making.seed}/{self.title}/{example}/{attempt}"
            request = ChatRequest([{"role": "user", "content": prompt}], idempotency_key=key, may_raise_limit=True)
            completion = await generator.complete(request)
            try:
                content, question, answer = read_content(completion.text or "")
            except ValueError as error:
                problem = str(error)
            else:
                return scripted_test(self, example, content, [question], [answer])
        raise ReplyError(f"{generator.name} wrote nothing usable in {ATTEMPTS} attempts: {problem}")


_Text: TypeAlias = Annotated[str, Meta(min_length=1)]


class _Content(msgspec.Struct):
    content: Annotated[list[_Text], Meta(min_length=2)]
    question: _Text
    answer: _Text


def read_content(text: str) -> tuple[list[str], str, str]:
    """Return statements, question and answer of a generator's reply."""
    value = read_lenient(text[:_MOST_CHARACTERS])
    content = converted(value, _Content)
    return content.content, content.question, content.answer
