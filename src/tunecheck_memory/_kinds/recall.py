"""Kinds with facts in messages and later questions: a country, a machine, a table, facts about the user that change."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Annotated, TypeAlias
from uuid import UUID

import msgspec
from msgspec import Meta

from tunecheck import ConfigurationError, ReplyError
from tunecheck.plugins import convert_value, dumps
from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, read_lenient, scripted_test
from tunecheck_memory._kinds.replies import expected_text, last_reply, score_mention
from tunecheck_memory._kinds.scripts import Fact, draw_values, read_data, read_line, read_words, whole

if TYPE_CHECKING:
    from tunecheck.endpoints import Endpoint


_FACTS, _ASKED = 10, 3
"""The facts of a test, and how many of them are asked for."""


class _Sheet(msgspec.Struct, frozen=True):
    """The templates of `country.json` or `manual.json`; `lists` has the words for the names in braces."""

    opening: str
    lists: dict[str, tuple[str, ...]]
    facts: tuple[Fact, ...]
    names: tuple[str, ...] = ()  # each is invented
    steps: tuple[str, ...] = ()


class DelayedRecall(Kind):
    """Ten facts in one message, then three questions, far apart."""

    name = "delayed_recall"
    title = "Delayed Recall"
    judged = True
    resets = True

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with ten random facts on an invented country, and questions about three of them."""
        random = making.random(self.title, example)
        country = read_data("country", _Sheet)
        values = draw_values(random, country.lists, country.names)
        facts = [fact.with_values(values) for fact in random.sample(country.facts, _FACTS)]

        told = "\n".join([country.opening.format(**values), *(fact.fact for fact in facts)])
        asked = random.sample(facts, _ASKED)
        return scripted_test(self, example, [told], [fact.question for fact in asked], [fact.answer for fact in asked])


_STEPS, _MANUAL_RULES = 6, 4
"""The steps and rules of a manual, drawn from a longer list."""


class InstructionRecall(Kind):
    """Six numbered steps and four rules in one message, then a question about a step and two about rules."""

    name = "instruction_recall"
    title = "Instruction Recall"
    judged = True
    resets = True

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with a random manual, and questions about one of its steps and two of its rules."""
        random = making.random(self.title, example)
        manual = read_data("manual", _Sheet)
        values = draw_values(random, manual.lists, ("maker",))

        # The name in all texts of the test: "Dralen echo press".
        values["machine"] = machine = f"{values['maker']} {values['machine']}"
        # Each step draws its own words: a repeated step would make "the next step" ambiguous.
        steps = [step.format(**draw_values(random, manual.lists, ())) for step in random.sample(manual.steps, _STEPS)]
        rules = [rule.with_values(values) for rule in random.sample(manual.facts, _MANUAL_RULES)]

        number = random.randrange(len(steps))
        # The question for the first step names no other step.
        question = read_line("next step" if number else "first step", machine=machine, step=steps[number - 1])
        asked = [Fact("", question, steps[number]), *random.sample(rules, 2)]
        random.shuffle(asked)

        numbered = [f"{place}. {step}" for place, step in enumerate(steps, 1)]
        told = "\n".join([manual.opening.format(machine=machine), *numbered, *(rule.fact for rule in rules)])
        return scripted_test(self, example, [told], [fact.question for fact in asked], [fact.answer for fact in asked])


class KeyValuePairs(Kind):
    """One flat object with `num_kv_pairs` pairs of random identifiers, and the question for one value."""

    name = "kv"
    title = "Key-Value Pairs"

    def __init__(self, *, num_kv_pairs: int = 140) -> None:
        self.num_kv_pairs = whole("num_kv_pairs", num_kv_pairs, least=1, most=100_000)

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with a table of random identifiers, and the question for the value of a random key."""
        random = making.random(self.title, example)
        pairs = [(_identifier(random), _identifier(random)) for _ in range(self.num_kv_pairs)]
        key, value = pairs[random.randrange(len(pairs))]
        statement = read_line("table", pairs=dumps(dict(pairs)).decode())
        return scripted_test(self, example, [statement], [read_line("value of a table", key=key)], [value])

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if the reply contains the value, in any case.

        Raises:
            UndecidedError: the row has no reply, or its expected answer has another form.
        """
        reply, value = last_reply(given), expected_text(given)
        return score_mention(value, value.lower() in reply.lower())


def _identifier(random: Random) -> str:
    """Return a random UUID."""
    return str(UUID(int=random.getrandbits(128), version=4))


ATTEMPTS = 5
"""The most requests for readable content."""

_MOST_CHARACTERS = 20_000
"""The most characters of a generator's reply that are read."""


class ConflictingPersonalInfo(Kind):
    """Three to five statements and a question that a generator endpoint writes about a subject."""

    name = "conflicting_personal_info"
    title = "Conflicting Personal Info"
    judged = True
    judge_prompt = "memory_conflicting_info"

    def definitions(self, count: int, making: GenerationContext) -> list[MemoryTest]:
        """Make the tests; a model, the generator, writes the content of each.

        Raises:
            ConfigurationError: There is no generator.
            EndpointError: A call failed after all retries, or no reply of the generator is usable.
        """
        from tunecheck.evaluators import JudgeLoop

        generator = making.generator
        if generator is None:
            raise ConfigurationError(
                "a model writes the content of conflicting_personal_info; name the model with --generator, or give "
                "existing definitions with --definitions"
            )

        loop = JudgeLoop(generator.close)  # the caller's thread may run an event loop already
        try:
            return [loop.run(self._definition(str(number), making, generator)) for number in range(count)]
        finally:
            loop.close()

    async def _definition(self, example: str, making: GenerationContext, generator: Endpoint) -> MemoryTest:
        """Ask the generator for a test's content until a reply is usable, five times at most; return the test.

        Raises:
            ReplyError: No reply is usable.
            EndpointError: A call failed after all retries.
        """
        from tunecheck.endpoints import ChatRequest

        random = making.random(self.title, example)
        subject, messages = random.choice(read_words("personal_subjects")), random.randint(3, 5)
        prompt = read_line("request for personal statements", messages=messages, subject=subject, example=example)

        problem = ""
        for attempt in range(ATTEMPTS):
            # The number of the attempt is in the key, so that a repeated request gets another reply.
            key = f"{making.seed}/{self.title}/{example}/{attempt}"
            request = ChatRequest([{"role": "user", "content": prompt}], idempotency_key=key, may_raise_limit=True)
            completion = await generator.complete(request)

            try:
                content, question, answer = read_content(completion.text or "")
            except ValueError as error:
                problem = str(error)
            else:
                return scripted_test(self, example, content, [question], [answer])
        raise ReplyError(f"{generator.name} wrote no usable test in {ATTEMPTS} attempts ({problem}); use another model")


_Text: TypeAlias = Annotated[str, Meta(min_length=1)]


class _Content(msgspec.Struct):
    """The content of a test in the generator's reply."""

    content: Annotated[list[_Text], Meta(min_length=2)]
    question: _Text
    answer: _Text


def read_content(text: str) -> tuple[list[str], str, str]:
    """Return statements, question and answer from a generator's reply.

    Example: `{"content": ["I live in Rome.", "I moved to Bern."], "question": "Where do I live?", "answer": "Bern"}`.

    Raises:
        ValueError: The reply is not JSON, or lacks one of them.
    """
    content = convert_value(read_lenient(text[:_MOST_CHARACTERS]), _Content)
    return content.content, content.question, content.answer
