"""The rule of every data set: what counts, and which defects of the GoodAI LTM benchmark the default mode repairs."""

from __future__ import annotations

import pytest
from tests.memory_scoring_parts import score, score_by_words, verdict_of

from tunecheck_memory import Points, Score
from tunecheck_memory._kinds.statements import Colours
from tunecheck_memory._rules import Undecided

SOAP = [["soap", 2], ["milk", 1], ["leek", 3]]
SPY = [["boat", "bridge", "raft", "kayak"], ["orchard"], ["noon", "midday"]]
QUOTE = [["To be, or not to be.", "W. S.", 3]]
SENTENCE = ["The umbrella hangs behind the door"]


def shopping(*items: tuple[str, object]) -> str:
    import json

    return json.dumps([{"item": name, "quantity": quantity} for name, quantity in items])


# -- colours, names, keys


def test_a_colour_is_a_word_not_its_letters() -> None:
    reply = "You never shared a preferred colour."
    assert score("Colours", ["Red"], reply, compat=True) == 1, "the benchmark's defect"
    assert score("Colours", ["Red"], reply) == 0


@pytest.mark.parametrize(
    "reply",
    [
        "Red, yellow, green, blue, cyan, purple.",
        "Your favourite colours are blue and red.",
        "Your favourite colour is blue. You also said red at some point.",
        "It is not red, it is blue.",
        "First you said red, but most recently blue.",
    ],
)
def test_a_list_of_colours_or_another_choice_is_no_answer(reply: str) -> None:
    assert score("Colours", ["Red"], reply, compat=True) == 1, "the benchmark's defect"
    assert score("Colours", ["Red"], reply) == 0


@pytest.mark.parametrize(
    "reply",
    [
        "Red.",
        "**Red**",
        "Your favourite colour is a shade of red.",
        "You initially said brown, then cream, but most recently red.",
        "Your favorite color is red, not blue.",
        "I think you said it was Cream, but then you said it was Red?",
        "You have liked blue and green in the past; currently your favourite is red.",
        "RED! (it used to be cyan)",
    ],
)
def test_the_colour_that_a_reply_settles_on_counts(reply: str) -> None:
    assert score("Colours", ["Red"], reply) == 1


@pytest.mark.parametrize(
    ("colour", "reply"),
    [
        ("Red", "Your favourite colour changed to Cream and then Red."),
        ("Red", "It changed from blue to red."),
        ("Red", "Your favourite went from blue to cyan and then to red."),
        ("Yellow", "Yellow (previously purple and tan)"),
        ("Yellow", "Yellow, previously purple."),
        ("Yellow", "It was purple initially, and is yellow now."),
        ("Yellow", "You used to like tan, then purple; now it is yellow."),
    ],
)
def test_a_colour_that_took_another_ones_place_counts(colour: str, reply: str) -> None:
    assert score("Colours", [colour], reply) == 1


@pytest.mark.parametrize(
    ("colour", "reply"),
    [
        ("Cream", "Your favourite colour changed to Cream and then Red."),
        ("Blue", "It changed from blue to red."),
        ("Purple", "Yellow (previously purple and tan)"),
        ("Red", "It is no longer red but blue."),
        ("Red", "Red is no longer your favourite, it is blue."),
    ],
)
def test_a_colour_that_was_left_behind_does_not(colour: str, reply: str) -> None:
    assert score("Colours", [colour], reply) == 0


def test_words_are_not_sure_of_several_colours_without_a_choice() -> None:
    assert not verdict_of("Colours", ["Red"], "Your favourite colours are blue and red.").sure
    assert verdict_of("Colours", ["Red"], "Blue.").sure


@pytest.mark.parametrize(
    "reply",
    [
        "You are no longer Bob.",
        "Your name is Ann, not Bob.",
        "Bob is no longer your name.",
        "You used to be Bob, now you are Ann.",
        "Ann (previously Bob)",
        "It changed from Bob to Ann.",
    ],
)
def test_a_name_that_is_denied_or_of_the_past_does_not_count(reply: str) -> None:
    assert score("Names", ["Bob"], reply) == 0


@pytest.mark.parametrize("reply", ["You were Ann, now you are Bob.", "Not Ann but Bob.", "Bob. You were Ann before."])
def test_the_name_that_holds_now_counts(reply: str) -> None:
    assert score("Names", ["Bob"], reply) == 1


def test_a_name_is_a_word_of_its_own() -> None:
    assert score("Names", ["Ann"], "You are Joanna.", compat=True) == 1
    assert score("Names", ["Ann"], "You are Joanna.") == 0
    assert score("Names", ["Ann"], "your name is ANN!") == 1


def test_the_value_of_a_key_stands_in_the_reply() -> None:
    assert score("Key-Value Pairs", ["3f-9c"], "It is '3f-9c'.") == 1
    assert score("kv", ["3f-9c"], "It is 3f-9d.") == 0


# -- lists


def test_names_count_by_the_longer_of_both_lists() -> None:
    assert score("NameList", ["Ann", "Ben"], '["ann"]') == 0.5
    assert score("NameList", ["Ann", "Ben"], '["Ann", "Ben", "Cem", "Dan"]') == 0.5
    assert score("NameList", ["Ann", "Ben"], "I do not know.") == 0


@pytest.mark.parametrize("reply", ["['Ann', 'Ben']", "```json\n['Ann', 'Ben']\n```", "[Ann, Ben]", "{Ann, Ben}"])
def test_names_without_double_quotes_are_a_list_by_default_and_none_to_the_benchmark(reply: str) -> None:
    assert score("NameList", ["Ann", "Ben"], reply, compat=True) == 0
    assert score("NameList", ["Ann", "Ben"], reply) == 1


@pytest.mark.parametrize(
    ("reply", "as_the_benchmark"),
    [
        ('[Ann", "Ben"]', 1),  # an opening quote is put in
        ('["Ann" "Ben",] That is all.', 1),
        ('["Ann", "Ben", ...]', 1),
        ('["Ann", // the first\n "Ben"]', 1),
        ('```json\n["Cem"]\n``` No:\n```json\n["Ann", "Ben"]\n```', 1),  # the last block
        ('["Ann", "Ben', 0),
    ],
)
def test_the_compatible_mode_repairs_a_list_as_the_benchmark_does(reply: str, as_the_benchmark: float) -> None:
    assert score("NameList", ["Ann", "Ben"], reply, compat=True) == as_the_benchmark


@pytest.mark.parametrize("reply", ["{'answer': 'crate'}", "{answer: crate}"])
def test_an_answer_without_double_quotes_is_none_to_the_benchmark(reply: str) -> None:
    assert score("SallyAnne", ["crate"], reply, compat=True) == 0
    assert score("SallyAnne", ["crate"], reply) == 1


def test_a_shopping_list_in_single_quotes_is_none_to_the_benchmark() -> None:
    reply = shopping(("Soap", 2), ("Milk", 1), ("Leek", 3)).replace('"', "'")
    assert score("Shopping", SOAP, reply, compat=True) == 0
    assert score("Shopping", SOAP, reply) == 1


@pytest.mark.parametrize(
    "reply",
    ['{"names": ["Ann", "Ben"]}', '[{"name": "Ann"}, {"name": "Ben"}]', r"[\"Ann\", \"Ben\"]", r'"[\"Ann\", \"Ben\"]"'],
)
def test_a_list_counts_within_an_object_and_with_its_escapes(reply: str) -> None:
    assert score("NameList", ["Ann", "Ben"], reply) == 1


@pytest.mark.parametrize("wrapped", ['{"shopping_list": %s}', 'Here you are: {"items": %s}'])
def test_a_shopping_list_counts_within_an_object(wrapped: str) -> None:
    reply = wrapped % shopping(("Soap", 2), ("Milk", 1), ("Leek", 3))
    assert score("Shopping", SOAP, reply) == 1
    assert score("Shopping", SOAP, reply, compat=True) == 0, "the benchmark wants a bare list"


def test_a_shopping_list_counts_with_its_quotes_escaped() -> None:
    bare = shopping(("Soap", 2), ("Milk", 1), ("Leek", 3))
    escaped = bare.replace('"', '\\"')
    assert score("Shopping", SOAP, escaped) == score("Shopping", SOAP, f'"{escaped}"') == 1


def test_an_example_of_somebody_who_has_no_access_is_no_shopping_list() -> None:
    made_up = shopping(("Soap", 2), ("Egg", 1))
    found = verdict_of("Shopping", SOAP, f"I have no access to your list. Here is an example: {made_up}")
    assert found.score == 0 and not found.sure
    assert score("Shopping", SOAP, f"I don't know about eggs. {made_up}") > 0


def test_two_empty_lists_are_equal() -> None:
    assert isinstance(verdict_of("NameList", [], "[]", compat=True), Undecided), "the benchmark divides by zero"
    assert score("NameList", [], "[]") == 1
    assert score("NameList", [], '["Ann"]') == 0


def test_a_shopping_list_counts_items_quantities_and_nothing_too_many() -> None:
    assert score("Shopping", SOAP, shopping(("Soap", 2), ("Milk", 1), ("Leek", 3))) == 1
    assert score("Shopping", SOAP, shopping(("Soap bars", 2), ("Milk", 9), ("Leek", 3))) == pytest.approx(
        (1 + 2 / 3 + 1) / 3
    )
    assert score("Shopping", SOAP, shopping(("Soap", 2), ("Milk", 1), ("Leek", 3), ("Egg", 1))) == pytest.approx(2 / 3)
    assert score("Shopping", SOAP, "[]") == pytest.approx(1 / 3)


def test_an_item_listed_three_times_counts_once() -> None:
    thrice = shopping(*[("Soap", 2), ("Milk", 1), ("Leek", 3)] * 3)
    assert score("Shopping", SOAP, thrice, compat=True) == pytest.approx(7 / 3), "the benchmark's 2.33"
    assert score("Shopping", SOAP, thrice) == pytest.approx(2 / 3), "all items, no quantity: 6, 3 and 9"


def test_quantities_of_an_item_that_is_listed_twice_are_added() -> None:
    assert score("Shopping", SOAP, shopping(("Soap", 1), ("Soap", 1), ("Milk", 1), ("Leek", 3))) == 1


def test_a_list_where_nothing_is_expected_breaks_only_the_benchmark() -> None:
    assert isinstance(verdict_of("Shopping", [], "[]", compat=True), Undecided)
    assert score("Shopping", [], "[]") == 1
    assert score("Shopping", [], shopping(("Soap", 1))) == 0


@pytest.mark.parametrize("reply", ["no JSON", "[1, 2]", '[{"item": "soap"}]', '[{"quantity": 1}]'])
def test_a_reply_of_another_shape_is_no_shopping_list(reply: str) -> None:
    assert score("Shopping", SOAP, reply) == 0
    assert score("Shopping", SOAP, reply, compat=True) == 0


# -- words in JSON, numbers


@pytest.mark.parametrize("reply", ['{"answer": null}', '{"answer": {"options": ["a"]}}', '{"answer": 3}'])
def test_an_answer_that_is_no_text_is_wrong(reply: str) -> None:
    assert isinstance(verdict_of("SallyAnne", ["crate"], reply, compat=True), Undecided), "the benchmark breaks off"
    assert score("SallyAnne", ["crate"], reply) == 0


def test_an_answer_counts_in_any_case() -> None:
    assert score("SallyAnne", ["crate"], '```json\n{"answer": "Crate"}\n```') == 1
    assert score("SallyAnne", ["crate"], '{"answer": "basket"}') == 0
    assert score("SallyAnne", ["crate"], "In the crate.") == 0, "JSON was asked for"


@pytest.mark.parametrize(
    "reply", ["Option 2 of 6", "2/6", "Of the 6 options I choose 2.", "2 out of the six", "Option 2. Chapter"]
)
def test_how_many_options_there_were_is_no_choice(reply: str) -> None:
    assert score("ChapterBreak", ["2"], reply) == 1


def test_the_benchmark_takes_every_number_for_a_choice() -> None:
    assert score("ChapterBreak", ["2"], "Option 2 of 6", compat=True) == 0
    assert score("ChapterBreak", ["2"], "2", compat=True) == 1


@pytest.mark.parametrize("reply", ["Not option 3 but option 2", "2, not 3", "Option 2 rather than option 5."])
def test_an_option_that_is_denied_is_no_choice(reply: str) -> None:
    assert score("ChapterBreak", ["2"], reply) == 1
    assert score("ChapterBreak", ["3"], reply) == 0


@pytest.mark.parametrize("reply", ["3", "2 or 3", "Option 2 or option 3", "none", "12"])
def test_another_option_or_two_of_them_are_wrong(reply: str) -> None:
    assert score("ChapterBreak", ["2"], reply) == 0


# -- spies, quotes, triggers


def test_spy_words_count_in_any_case() -> None:
    reply = "Noon at the Orchard. Bring a Boat."
    assert score("Spy Meeting", SPY, reply, compat=True) == 0, "the benchmark's defect"
    assert score("Spy Meeting", SPY, reply) == 1


def test_words_of_other_messages_take_a_third_once() -> None:
    assert score("Spy Meeting", SPY, "noon, orchard, boat, midnight, a key") == pytest.approx(2 / 3)
    assert score("Spy Meeting", SPY, "midnight") == 0
    assert score("Spy Meeting", SPY, "noontide by the orchardist") == 0, "words of their own count"


@pytest.mark.parametrize(
    "reply", ["Not at noon, in the orchard, with a boat", "At dusk rather than noon; orchard, boat"]
)
def test_what_a_spy_denies_is_not_understood(reply: str) -> None:
    assert score("Spy Meeting", SPY, reply) <= 2 / 3


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (["port", "docks"], "At the dock"),
        (["boat"], "Bring two boats, or a rowboat"),
        (["pick", "key"], "a lockpicking set"),
        (["motorbike", "fast vehicle"], "some vehicle for the flight"),
    ],
)
def test_a_spys_words_count_in_any_number_and_within_compounds(words: list[str], reply: str) -> None:
    assert score("Spy Meeting", [words], reply) == 1
    assert score("Spy Meeting", [words], reply, compat=True) == 0


@pytest.mark.parametrize("reply", ["Show your passport", "These are the key points", "Pick one of them", "A monkey"])
def test_a_spys_word_in_another_word_or_sense_is_not_understood(reply: str) -> None:
    assert score("Spy Meeting", [["port", "seaport", "docks"], ["pick", "key"]], reply) == 0


def test_one_word_of_another_message_is_passed_over_where_all_are_understood_but_words_are_not_sure() -> None:
    found = verdict_of("Spy Meeting", SPY, "Noon, in the orchard, with a boat. By midnight all is over.")
    assert found.score == 1 and not found.sure


def test_words_are_sure_of_an_excuse_and_not_of_other_words_than_the_messages() -> None:
    assert verdict_of("Spy Meeting", SPY, "I do not have any record of messages.").sure
    assert not verdict_of("Spy Meeting", SPY, "When the sun is high, where apples grow, with a way across.").sure


def test_a_spy_meeting_of_our_own_has_words_of_our_own() -> None:
    from tunecheck_memory._kinds.spy_meeting import spy_words

    ours = spy_words()[:3]
    assert score("Spy Meeting", [list(words) for words in ours], " ".join(words[0] for words in ours)) == 1


def test_a_quote_belongs_in_the_nth_reply_alone() -> None:
    quoted = "Fine. To be or not to be"
    assert score("Prospective Memory", QUOTE, "Fine", since_question=["Fine", "b", quoted]) == 1
    assert score("Prospective Memory", QUOTE, "Fine", since_question=["Fine", quoted, "c"]) == 0
    assert score("Prospective Memory", QUOTE, "Fine", since_question=[quoted, "b", quoted]) == 0
    assert score("Prospective Memory", QUOTE, "Fine", since_question=["a", "b", "c", quoted]) == 0
    assert isinstance(verdict_of("Prospective Memory", QUOTE, "Fine"), Undecided), "what followed is not known"


def test_who_repeats_the_quote_to_say_where_it_will_be_put_has_not_put_it_there_yet() -> None:
    since = ["I will append 'To be, or not to be' to my third reply.", "b", "Fine. To be or not to be"]
    assert score("Prospective Memory", QUOTE, since[0], since_question=since) == 1
    assert score("Prospective Memory", QUOTE, since[0], since_question=since, compat=True) == 0
    assert score("Prospective Memory", QUOTE, since[0], since_question=[since[0], "b", "c"]) == 0


@pytest.mark.parametrize(
    "reply",
    [
        "the umbrella hangs behind the door",
        "It rains! The umbrella hangs, behind the door. Keep dry.",
        "Rain again!\n\nThe umbrella hangs behind that door.",
        "[10:31] The umbrella **hangs** behind the door",
    ],
)
def test_the_agreed_sentence_counts_wherever_it_stands(reply: str) -> None:
    assert score("Trigger Response", SENTENCE, reply) == 1


@pytest.mark.parametrize(
    "reply",
    [
        "Is it raining? Do you need an umbrella?",
        "You asked me not to say 'The umbrella hangs behind the door' any more.",
        "I won't repeat 'the umbrella hangs behind the door'.",
        "",
    ],
)
def test_what_only_resembles_the_sentence_or_declines_it_does_not(reply: str) -> None:
    assert score("Trigger Response", SENTENCE, reply) == 0


@pytest.mark.parametrize(
    "reply",
    [
        'I was told to say "the umbrella hangs behind the door", but I refuse.',
        "You asked me to say: The umbrella hangs behind the door. I won't do that.",
        "I am supposed to answer 'the umbrella hangs behind the door', but I would rather not.",
    ],
)
def test_a_sentence_that_is_told_of_and_refused_is_not_said(reply: str) -> None:
    assert score("Trigger Response", SENTENCE, reply, compat=True) == 1, "the benchmark's defect"
    assert score("Trigger Response", SENTENCE, reply) == 0


def test_triggers_count_by_their_number() -> None:
    assert score(
        "Trigger Response",
        SENTENCE * 3,
        "The umbrella hangs behind the door",
        "no",
        "the umbrella hangs behind the door!",
    ) == pytest.approx(2 / 3)
    assert score("Trigger Response", SENTENCE * 3, "The umbrella hangs behind the door") == pytest.approx(1 / 3), (
        "replies are missing"
    )


def test_the_threshold_of_likeness_is_the_configurations() -> None:
    near = "The umbrella hangs behind my door"  # five of six words in order: F1 = 5/6
    assert score("Trigger Response", SENTENCE, near) == 1
    assert score("Trigger Response", SENTENCE, near, args={"rouge_score_threshold": 0.9}) == 0


# -- jokes

JOKE = "What do clouds wear? Thunderwear."
OTHER = "The baker quit because he did not make enough dough."


@pytest.mark.parametrize(
    "reply",
    [
        f'You told me: "{JOKE}"',
        "It was the one that goes: what do clouds wear - thunderwear!",
        f'You told me two jokes. The one about 2 hours ago was "{JOKE}", the other was "{OTHER}".',
        f'About 2 hours ago you told me: "{JOKE}" Here\'s a new one: "Why did the chicken cross the wide road?"',
    ],
)
def test_the_joke_counts_where_the_reply_settles_on_it(reply: str) -> None:
    assert score("Jokes", [JOKE], reply, script=[JOKE, OTHER]) == 1


@pytest.mark.parametrize(
    "reply",
    [
        f'You told me: "{OTHER}"',
        "I cannot remember.",
        f'1. "{OTHER}"\n2. "{JOKE}"\nIs one of them what you mean?',
        f'You told several jokes: "{JOKE}" and "{OTHER}".',
        "One was about what clouds wear, thunderwear, another about a baker and his dough.",
        "Something about clouds?",
    ],
)
def test_another_joke_or_all_of_them_are_no_answer(reply: str) -> None:
    assert score("Jokes", [JOKE], reply, script=[JOKE, OTHER]) == 0


def test_another_joke_is_known_without_the_script_where_it_stands_out() -> None:
    assert score("Jokes", [JOKE], f'1. "{OTHER}"\n2. "{JOKE}"') == 0


# -- all of them


def test_points_are_the_score_of_tests_that_count_themselves() -> None:
    assert score("Restaurant", [], points=Points(3, 5, ("ordered",))) == 0.6
    assert score("Restaurant", [], points=Points(7, 5, ())) == 1
    assert isinstance(verdict_of("Restaurant", [], points=Points(1, 0, ())), Undecided)
    assert isinstance(verdict_of("Restaurant", []), Undecided)


@pytest.mark.parametrize(
    "title", ["Delayed Recall", "Instruction Recall", "How to think", "Conflicting Personal Information", "Haiku"]
)
def test_what_only_a_judge_can_score_has_no_score(title: str) -> None:
    found: Score | Undecided = verdict_of(title, ["yes"], "yes")
    assert isinstance(found, Undecided)
    assert title in found.reason


def test_a_title_and_the_configurations_name_are_one() -> None:
    assert score("spy_meeting", SPY, "noon") == score("Spy Meeting", SPY, "noon")


def test_a_kind_scores_by_these_rules() -> None:
    from tunecheck_memory import FinishedTest

    given = FinishedTest("Colours", ["Red"], ["Red"])
    assert Colours().score(given) == score_by_words(given) == Score(1.0, ("the reply says 'red'",))
