"""Properties of any tests, for all their waits and any agent."""

import random
from collections.abc import Sequence

from hypothesis import given, settings as hypothesis_settings, strategies as st
from tests.memory_core_parts import kind, made_test, run, settings

from tunecheck_memory import (
    Begin,
    Deregister,
    Effect,
    End,
    Outcome,
    Register,
    ResetAgent,
    Send,
    Settings,
    Test,
    Wait,
    Waiting,
)

waits = st.builds(
    Wait,
    tokens=st.integers(0, 60),
    seconds=st.sampled_from([0, 0, 0, 1, 30, 86_400, 200_000]),
    percentage=st.sampled_from([0.0, 10.0, 33.3, 90.0, 150.0]),
)

KINDS = (
    kind("Alpha", topics={"names"}),
    kind("Alpha Beta", topics={"names", "places"}),
    kind("Beta", resets=True),
    kind("Gamma", topics={"places"}, looks=3, resets=True),
    kind("Delta"),
)


@st.composite
def any_test(draw: st.DrawFn, example: str) -> Test:
    of = draw(st.sampled_from(KINDS))
    lines = draw(st.lists(st.tuples(st.sampled_from(["one", "two words", "a few more words"]), waits), max_size=4))
    steps = [step for line, wait in lines for step in (line, wait)]
    if of.title == "Gamma":
        return made_test(of, *steps, "remember?", example=example, uses_callback=True)
    return made_test(of, *steps, "and now?", example=example)


some_tests = st.integers(0, 6).flatmap(lambda n: st.tuples(*(any_test(str(example)) for example in range(n))))
some_settings = st.builds(
    settings,
    memory_span=st.integers(1, 300),
    isolated=st.booleans(),
    incompatibilities=st.sampled_from([[], [frozenset({"Beta", "Delta"})], [frozenset({"Alpha", "Gamma", "No"})]]),
    max_message_tokens=st.sampled_from([1, 20, 4096]),
    seed=st.integers(0, 3),
)


def any_reply(seed: int) -> object:
    source = random.Random(seed)

    def reply(effect: Effect) -> str:
        return " ".join("w" * source.randrange(0, 9)) or ""

    return reply


def events(tests: Sequence[Test], chosen: Settings, seed: int) -> list[tuple[Effect, Outcome]]:
    return run(tests, chosen, any_reply(seed), seconds=seed % 3)  # type: ignore[arg-type]


@given(some_tests, some_settings, st.integers(0, 99))
def test_every_test_begins_once_and_ends_once(tests: Sequence[Test], chosen: Settings, seed: int) -> None:
    done = [effect for effect, _ in events(tests, chosen, seed)]
    ids = sorted(test.id for test in tests)
    assert sorted(effect.test for effect in done if isinstance(effect, Begin)) == ids
    assert sorted(effect.test for effect in done if isinstance(effect, End)) == ids


@given(some_tests, some_settings, st.integers(0, 99))
def test_two_tests_of_one_topic_are_never_at_work_at_once(tests: Sequence[Test], chosen: Settings, seed: int) -> None:
    by_id = {test.id: test.kind for test in tests}
    at_work: set[str] = set()
    for effect, _ in events(tests, chosen, seed):
        if isinstance(effect, Begin):
            mine = by_id[effect.test]
            for other in at_work:
                assert mine.title != by_id[other].title and not mine.topics & by_id[other].topics
                assert not any({mine.title, by_id[other].title} <= apart for apart in chosen.incompatibilities)
            at_work.add(effect.test)
        elif isinstance(effect, End):
            at_work.remove(effect.test)


@given(some_tests, some_settings, st.integers(0, 99))
def test_no_test_goes_on_before_its_wait_is_over(tests: Sequence[Test], chosen: Settings, seed: int) -> None:
    until: dict[str, tuple[int, int]] = {}
    tokens = now_us = 0
    for effect, outcome in events(tests, chosen, seed):
        if isinstance(effect, Waiting):
            until[effect.test] = (tokens + effect.tokens, outcome.at_us + effect.seconds * 1_000_000)
        if isinstance(effect, Deregister):  # what it waited for has come
            until.pop(effect.test, None)
        if isinstance(effect, Send):
            least = until.pop(effect.test, (0, 0))
            assert tokens >= least[0] and now_us >= least[1]
            tokens += len(effect.message.split()) + len((outcome.text or "").split())
        now_us = outcome.at_us


@given(some_tests, some_settings, st.integers(0, 99))
def test_each_test_says_its_lines_in_order(tests: Sequence[Test], chosen: Settings, seed: int) -> None:
    done = events(tests, chosen, seed)
    for test in tests:
        mine = [effect.message for effect, _ in done if isinstance(effect, Send) and effect.test == test.id]
        script = list(test.definition.script)
        assert mine[: len(script)] == script and mine[len(script) :] in ([], ["forget it"])


@given(some_tests, some_settings, st.integers(0, 99))
def test_a_callback_is_registered_and_deregistered_once(tests: Sequence[Test], chosen: Settings, seed: int) -> None:
    done = [effect for effect, _ in events(tests, chosen, seed)]
    with_callback = sorted(test.id for test in tests if test.definition.uses_callback)
    assert sorted(effect.test for effect in done if isinstance(effect, Register)) == with_callback
    assert sorted(effect.test for effect in done if isinstance(effect, Deregister)) == with_callback


@given(some_tests, some_settings, st.integers(0, 99))
def test_isolated_tests_are_never_interleaved(tests: Sequence[Test], chosen: Settings, seed: int) -> None:
    done = [effect for effect, _ in events(tests, chosen, seed)]
    resets = [effect for effect in done if isinstance(effect, ResetAgent)]
    assert len(resets) == (len(tests) if chosen.isolated else 0)
    if chosen.isolated:
        order = [str(test) for effect in done if (test := getattr(effect, "test", ""))]
        assert order == sorted(order)


@given(some_tests, some_settings, st.integers(0, 99))
@hypothesis_settings(max_examples=30)
def test_the_same_outcomes_give_the_same_events(tests: Sequence[Test], chosen: Settings, seed: int) -> None:
    assert events(tests, chosen, seed) == events(tests[::-1], chosen, seed)
