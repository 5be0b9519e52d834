"""How tests are interleaved, by sums done by hand: words count as tokens, every reply is "ok"."""

import pytest
from tests.agent_parts import Words
from tests.memory_core_parts import SECOND, START_US, begun, kind, made_test, run, said, settings

from tunecheck import ConfigurationError
from tunecheck_memory import (
    Begin,
    Deregister,
    End,
    Jump,
    Kind,
    MemoryTest,
    Outcome,
    Points,
    Register,
    ResetAgent,
    Scene,
    Scheduler,
    Send,
    Steps,
    SuiteReset,
    Wait,
    Waiting,
)

HALF = Wait(percentage=50)


def test_a_run_introduces_itself_and_then_the_tests_begin() -> None:
    done = [effect for effect, _ in run([made_test("Alpha", "a?")], settings())]
    assert done == [
        Send("", "hello there"),
        SuiteReset(),
        Begin("Alpha - 0", 3),  # two words of introduction, one of reply
        Send("Alpha - 0", "a?", question=True),
        End("Alpha - 0"),
    ]


def test_a_percentage_counts_from_the_tests_beginning_and_the_reply_is_taken_off() -> None:
    done = run([made_test("Alpha", "one two", HALF, "three?")], settings())
    waits = [effect for effect, _ in done if isinstance(effect, Waiting)]
    # 50 of 100 tokens, 3 of them are over ("one two", "ok"), and the reply's one is taken off.
    assert waits == [Waiting("Alpha - 0", 50 - 3 - 1, 0)]


def test_a_wait_for_one_token_is_not_shortened_by_the_reply() -> None:
    done = run([made_test("Alpha", "one", Wait(tokens=1), "two?")], settings())
    assert [effect.tokens for effect, _ in done if isinstance(effect, Waiting)] == [1]


def test_a_percentage_that_is_over_waits_for_nothing() -> None:
    done = run([made_test("Alpha", "one two three four five", Wait(percentage=2), "six?")], settings())
    assert [effect.tokens for effect, _ in done if isinstance(effect, Waiting)] == [0]


def test_tests_begin_in_the_order_of_their_ids_as_text() -> None:
    tests = [made_test("Alpha", "a", HALF, "b?", example=example) for example in ("2", "10", "1")]
    assert [id_ for id_, _ in begun(run(tests, settings()))] == ["Alpha - 1", "Alpha - 10", "Alpha - 2"]


def test_tests_of_one_data_set_follow_one_another_and_others_go_side_by_side() -> None:
    tests = [made_test(title, "x", HALF, "y?", example=str(n)) for title in ("Beta", "Alpha") for n in range(2)]
    order = [(type(effect).__name__, effect.test) for effect, _ in run(tests, settings())
             if isinstance(effect, (Begin, End))]  # fmt: skip
    assert order == [
        ("Begin", "Alpha - 0"),
        ("Begin", "Beta - 0"),
        ("End", "Alpha - 0"),
        # Beta - 0 has waited long enough as well, and goes on before anything new begins.
        ("End", "Beta - 0"),
        ("Begin", "Alpha - 1"),
        ("Begin", "Beta - 1"),
        ("End", "Alpha - 1"),
        ("End", "Beta - 1"),
    ]


def test_kinds_that_share_a_topic_are_kept_apart_unless_topics_do_not_count() -> None:
    tests = [made_test(kind(title, topics={"names"}), "x", HALF, "y?") for title in ("Alpha", "Beta")]
    apart = [type(effect).__name__ for effect, _ in run(tests, settings()) if isinstance(effect, (Begin, End))]
    together = [type(effect).__name__ for effect, _ in run(tests, settings(by_topics=False))
                if isinstance(effect, (Begin, End))]  # fmt: skip
    assert apart == ["Begin", "End", "Begin", "End"]
    assert together == ["Begin", "Begin", "End", "End"]


def test_time_passes_before_filler_does_and_a_second_more_than_was_asked_for() -> None:
    done = run([made_test("Alpha", "a", Wait(seconds=3600, percentage=50), "b?")], settings())
    kinds = [type(effect).__name__ for effect, _ in done]
    assert kinds == ["Send", "SuiteReset", "Begin", "Send", "Waiting", "Jump", "Send", "Send", "End"]
    said_at = done[3][1].at_us
    assert done[5][0] == Jump(said_at + 3601 * SECOND)


def test_all_waits_for_time_are_over_before_any_filler_is_sent() -> None:
    tests = [
        made_test("Alpha", "a", Wait(seconds=100, percentage=50), "b?"),
        made_test("Beta", "a", Wait(seconds=900, percentage=20), "b?"),
    ]
    kinds = [type(effect).__name__ for effect, _ in run(tests, settings()) if isinstance(effect, (Jump, Send))]
    assert kinds[3:] == ["Jump", "Jump", "Send", "Send", "Send", "Send"]


def test_two_that_wait_for_the_same_time_are_both_served() -> None:
    # The jump for one makes the other free, which then waits for no time that could be jumped to.
    tests = [made_test("Alpha", "a", Wait(seconds=50, tokens=40), "b?"), made_test("Beta", "a", Wait(seconds=50), "b?")]
    done = run(tests, settings(), seconds=0)
    assert said(done) == ["a", "a", "b?", "b?"]


def test_filler_is_as_long_as_what_is_waited_for() -> None:
    done = run([made_test("Alpha", "a", Wait(tokens=28), "b?")], settings())
    filler = [effect for effect, _ in done if isinstance(effect, Send) and effect.filler][1:]
    # 28 less the reply's 1 = 27 tokens: a preface of 3, and 5 for each entry (4 in its line, 1 in the answers' list).
    assert [len(effect.draws) for effect in filler] == [5]
    assert filler[0].message.count("Q q") == 5
    assert filler[0].suggested is not None and len(filler[0].suggested.split()) == 5


def test_a_filler_message_has_its_limit() -> None:
    done = run([made_test("Alpha", "a", Wait(tokens=61), "b?")], settings(max_message_tokens=23))
    sizes = [len(effect.draws) for effect, _ in done if isinstance(effect, Send) and effect.filler][1:]
    assert sizes == [4, 4, 3]  # 60 = 23 + 23 + 14, the last rounded up to 18


def test_short_answers_to_filler_do_not_shorten_what_is_waited_for() -> None:
    done = run([made_test("Alpha", "a", Wait(tokens=28), "b?")], settings(), reply=lambda _: "")
    spent = sum(len(effect.message.split()) for effect, _ in done if isinstance(effect, Send) and effect.filler) - 2
    assert spent >= 28


def test_a_callback_looks_on_until_it_has_seen_enough_and_then_the_test_ends() -> None:
    tests = [
        made_test(kind("Alpha", looks=3, resets=True), "a", "remember?", uses_callback=True),
        made_test("Beta", "b1", Wait(tokens=5), "b2", Wait(tokens=5), "b3?"),
    ]
    done = [effect for effect, _ in run(tests, settings())][2:]
    assert done[:6] == [
        Begin("Alpha - 0", 3),
        Send("Alpha - 0", "a"),
        Send("Alpha - 0", "remember?", question=True),
        Register("Alpha - 0"),
        Waiting("Alpha - 0", 1, 0),
        Begin("Beta - 0", 7),
    ]
    # Its own reply was the first, "b1" the second; filler or "b2" brings the third.
    place = done.index(Deregister("Alpha - 0"))
    seen = [effect for effect in done[3:place] if isinstance(effect, Send)]
    assert len(seen) == 2
    rest = [effect for effect in done[place:] if getattr(effect, "test", "") == "Alpha - 0"]
    assert rest == [Deregister("Alpha - 0"), Send("Alpha - 0", "forget it"), End("Alpha - 0")]


def test_a_callback_that_has_seen_enough_in_its_own_tests_turn_ends_the_test_at_once() -> None:
    tests = [
        made_test(kind("Alpha", looks=1, resets=True), "a", "remember?", uses_callback=True),
        made_test("Beta", "b1", Wait(tokens=5), "b2?"),
    ]
    done = [effect for effect, _ in run(tests, settings())][3:]
    assert done[:8] == [
        Send("Alpha - 0", "a"),
        Send("Alpha - 0", "remember?", question=True),
        Register("Alpha - 0"),
        Waiting("Alpha - 0", 1, 0),
        Deregister("Alpha - 0"),
        Send("Alpha - 0", "forget it"),
        End("Alpha - 0"),
        Begin("Beta - 0", 10),
    ]


def test_a_callback_that_has_seen_enough_early_leaves_its_test_the_rest_of_its_lines() -> None:
    test = made_test(kind("Alpha", looks=1), "remember?", Wait(tokens=5), "thank you", uses_callback=True)
    done = run([test], settings())
    assert said(done) == ["remember?", "thank you"]
    assert done[-1][0] == End("Alpha - 0")


def test_no_reply_is_suggested_while_a_callback_counts_replies() -> None:
    tests = [made_test(kind("Alpha", looks=4), "remember?", uses_callback=True)]
    filler = [effect for effect, _ in run(tests, settings()) if isinstance(effect, Send) and effect.filler][1:]
    # Three replies after its own: the third is seen in the test's own turn, which ends it.
    assert [effect.suggested is None for effect in filler] == [True, True, True]


def test_a_temporal_question_is_worded_when_it_is_asked() -> None:
    done = run([made_test("Alpha", "a", Wait(seconds=100), is_temporal=True)], settings())
    # One second for the reply, a hundred of waiting, and the one that a jump adds.
    assert said(done)[-1] == "which 102 seconds ago?"
    assert done[-2][0] == Send("Alpha - 0", "which 102 seconds ago?", question=True)


def test_a_kind_with_temporal_tests_and_no_words_for_their_question_is_told_what_it_lacks() -> None:
    silent = type("Silent", (Kind,), {"title": "Alpha", "name": "alpha"})()
    with pytest.raises(ConfigurationError, match=r"the class Silent makes temporal tests; add temporal_question\(\)"):
        run([made_test(silent, "a", Wait(seconds=100), is_temporal=True)], settings())


def test_isolated_tests_run_one_after_another_and_the_agent_is_reset_after_each() -> None:
    tests = [made_test(title, "a", Wait(seconds=60, percentage=50), "b?") for title in ("Beta", "Alpha")]
    done = [effect for effect, _ in run(tests, settings(isolated=True))]
    assert [type(effect).__name__ for effect in done] == 2 * ["Begin", "Send", "Jump", "Send", "End", "ResetAgent"]
    assert done[0] == Begin("Alpha - 0", 0) and done[6] == Begin("Beta - 0", 4)
    assert done[2] == Jump(START_US + SECOND + 60 * SECOND)
    assert done[5] == ResetAgent("Alpha - 0")


def test_an_isolated_callback_is_satisfied_by_filler() -> None:
    tests = [made_test(kind("Alpha", looks=4, resets=True), "remember?", uses_callback=True)]
    done = [effect for effect, _ in run(tests, settings(isolated=True, max_message_tokens=50))]
    kinds = [type(effect).__name__ for effect in done]
    # A hundred tokens of filler at a time: three messages of fifty with short replies, then the callback looks.
    assert kinds == ["Begin", "Send", "Register", *3 * ["Send"], "Deregister", "Send", "End", "ResetAgent"]


def test_an_isolated_callback_that_has_seen_enough_at_once_ends_its_test() -> None:
    tests = [made_test(kind("Alpha", looks=1), "remember?", uses_callback=True)]
    kinds = [type(effect).__name__ for effect, _ in run(tests, settings(isolated=True))]
    assert kinds == ["Begin", "Send", "Register", "Deregister", "End", "ResetAgent"]


@pytest.mark.parametrize(
    ("isolated", "sent", "points"),
    [(False, ["remember?", "later", "and?"], Points(1, 2, ())), (True, ["remember?"], None)],
)
def test_as_in_goodai_an_isolated_test_ends_with_its_callback(
    isolated: bool, sent: list[str], points: Points | None
) -> None:
    class Counting(Kind):
        title, name = "Alpha", "alpha"

        def steps(self, definition: MemoryTest, scene: Scene) -> Steps:
            yield from super().steps(definition, scene)
            return Points(1, 2, ())

    test = made_test(Counting(), "remember?", "later", "and?", uses_callback=True)
    done = [effect for effect, _ in run([test], settings(isolated=isolated, introduce=False))]
    assert [effect.message for effect in done if isinstance(effect, Send) and effect.test] == sent
    assert [effect.points for effect in done if isinstance(effect, End)] == [points]


def test_a_data_set_may_have_a_memory_span_of_its_own() -> None:
    from dataclasses import replace

    test = replace(made_test("Alpha", "a", HALF, "b?"), memory_span=1000)
    waits = [effect.tokens for effect, _ in run([test], settings()) if isinstance(effect, Waiting)]
    assert waits == [500 - 2 - 1]


def test_every_text_is_counted_once_however_long_the_conversation_grows() -> None:
    def counted_per_message(examples: int) -> float:
        tally = Words()
        tests = [
            made_test(title, "a", HALF, "b", Wait(percentage=90), "c?", example=f"{number:03}")
            for title in ("Alpha", "Beta", "Gamma")
            for number in range(examples)
        ]
        done = run(tests, settings(500, tokenizer=tally))
        return len(tally.counted) / sum(isinstance(effect, Send) for effect, _ in done)

    # A message and its reply; the entries of the pool once each; two pieces for each filler message.
    assert counted_per_message(40) < 3
    assert counted_per_message(80) <= counted_per_message(40)


def test_two_tests_of_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="'Alpha - 0'"):
        run([made_test("Alpha", "a?"), made_test("Alpha", "b?")], settings())


def test_the_clock_never_goes_back_when_an_outcome_is_earlier_than_the_last() -> None:
    later, earlier = START_US + 500 * SECOND, START_US + 3 * SECOND
    scheduler = Scheduler([made_test("Alpha", "one", Wait(seconds=60), "two?")], settings())
    stream = scheduler.run()
    effect = next(stream)
    jumps: list[Jump] = []
    for number in range(100):
        outcome = Outcome(later if number == 0 else earlier, "ok" if isinstance(effect, Send) else None)
        if isinstance(effect, Jump):
            jumps.append(effect)
            outcome = Outcome(effect.until_us)
        try:
            effect = stream.send(outcome)
        except StopIteration:
            break
        assert scheduler.now_us >= later
    # The wait is counted from the latest time that was ever told, not from the earlier one after it.
    assert jumps == [Jump(later + 60 * SECOND + SECOND)]
