"""A judge's reply is read leniently, and what is not a verdict is an error that says why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from tunecheck.evaluators._judges.reply import JudgementError, ReplyKeys, read_reply, shortened
from tunecheck.pipeline._answer_wording import refuses

KEYS = ReplyKeys("score", "reason", ("reason", "score"))
VERDICT = {"reason": "too short", "score": 2}
TEXT = json.dumps(VERDICT)


def read(text: str, keys: ReplyKeys = KEYS) -> dict[str, Any]:
    return read_reply(text, keys)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"  {TEXT}\n",
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```",
        f"Here is my judgement:\n\n```json\n{TEXT}\n```\nI hope this helps!",
        f"I judge as follows: {TEXT} and that is all.",
        f"Step 1: {{curly}} braces \\frac{{1}}{{2}} are not JSON. {TEXT}",
        f'<think>maybe {{"score": 5}}?</think>{TEXT}',
        f'Were it polite I would say {{"score": 5, "reason": "fine"}}, but it is not: {TEXT}',
        f'{TEXT} {{"note": "an object without a score"}}',
        '{"Reason": "too short", "SCORE": 2}',
        f"[{TEXT}]",
        "<S0>Let me think.</S0><S1>too short</S1><S2>2</S2>",
        "<reason>too short</reason>\n<score> 2 </score>",
    ],
)
def test_a_verdict_is_found_in_whatever_stands_around_it(text: str) -> None:
    found = read(text)
    assert (found["score"], found["reason"]) == (2, "too short")


def test_a_line_feed_inside_of_a_text_is_forgiven() -> None:
    assert read('{"reason": "one\ntwo", "score": 1}')["reason"] == "one\ntwo"


@pytest.mark.parametrize(
    ("text", "score"),
    [("4", 4), ("4.5", 4.5), ("**4**", 4), ("Score: 4", 4), ("The score is 4.", 4), ("```\n3\n```", 3), ("-1", -1)],
)
def test_a_bare_number_is_the_score(text: str, score: float) -> None:
    assert read(text) == {"score": score}


@pytest.mark.parametrize(
    "text", ["4/5", "four", "4 or 5", "between 3 and 4", "I rate it 4 because it is short\nand dry"]
)
def test_a_number_among_other_words_is_no_score(text: str) -> None:
    with pytest.raises(JudgementError):
        read(text)


@pytest.mark.parametrize("text", ["polite", "Polite.", "Label: polite", '"polite"'])
def test_a_bare_word_is_the_score_where_it_is_one_of_the_labels(text: str) -> None:
    keys = ReplyKeys("tone", labels=("polite", "rude"))
    assert str(read(text, keys)["tone"]).casefold() == "polite"
    with pytest.raises(JudgementError):
        read("friendly", keys)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("<think>still thinking", "empty"),
        ("It was a nice answer.", "no JSON object"),
        ('{"reason": "it beg', "breaks off"),
        ('{"reason": "x" "score": 2}', "breaks off or is broken"),
        ("x" * 1_000_001, "1,000,001 characters"),
    ],
)
def test_what_is_no_verdict_is_an_error_that_says_why(text: str, problem: str) -> None:
    with pytest.raises(JudgementError, match=problem):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that.",
        "I cannot help with this request.",
        "Sorry, I am unable to judge this content.",
        "I won’t evaluate that.",
        "I'm not able to help with that, I can't.",
    ],
)
def test_refusals_are_recognised(text: str) -> None:
    assert refuses(text)


@pytest.mark.parametrize("text", ["The response is sorry and I can't say why", "Score four", "", "{"])
def test_other_texts_are_no_refusals(text: str) -> None:
    assert not refuses(text)


def test_a_long_reply_is_shown_by_its_beginning_and_its_end() -> None:
    shown = shortened("begin\n" + "x" * 5_000 + " end")
    assert shown.startswith("begin xxx")
    assert shown.endswith(" end")
    assert "5,010 characters" in shown
    assert len(shown) < 400


NESTED = '{"a":' * 30_000


@given(
    st.one_of(
        st.text(max_size=300),
        st.text(alphabet='{}[]":,\\ \nsSeE<>/0129ct.`', max_size=300),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["score", "reason", "x"]), inner)
            ),
            max_leaves=8,
        ).map(lambda value: f"say {json.dumps(value)} end"),
    )
)
@example(NESTED)
@example('{"score":' + "[" * 50_000)
@example('{"score": ' + "9" * 6_000 + "}")
@example('{"score": 1e999}')
@example('{"score": NaN}')
@example('{"score": "\\ud83d"}')
@example('{"' * 100_000)
@example("<score>" * 50_000)
@example("</score>" * 50_000)
@example('{"score": ' + '{"x": ' * 150 + "1" + "}" * 151)
def test_nothing_but_a_verdict_or_its_own_error_comes_of_any_text(text: str) -> None:
    try:
        found = read(text)
    except JudgementError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(found, dict)
