"""Pairs of texts for the semantic evaluators' tests: what was answered, and what was expected."""

from __future__ import annotations

__all__ = ["LONG", "PAIRS"]

LONG = " ".join(f"Item {n} of the list is a rather ordinary thing." for n in range(120))
"""About 1,300 tokens: more than a model with 512 positions reads."""

PAIRS = [
    ("The capital of France is Paris.", "Paris is the capital city of France."),
    ("I can't help with that, sorry.", "Unfortunately, I am unable to assist with booking flights."),
    ("Your order will arrive on Tuesday.", "It rained, so he left early."),
    ("yes", "Yes!"),
    ("yes", "no"),
    ("Le café est fermé aujourd'hui.", "Le café reste fermé aujourd’hui 🙂"),
    ("今天天气很好", "今天天气不错"),
    ("  The 30% discount   makes it $70.00.\n", "After a 30 % discount, the price is 70 dollars."),
    ("a [SEP] b", "a b"),
    ("word " * 300, "word " * 290 + "end"),
    (LONG, LONG[200:]),
    ("ﬁne Å ß straße", "fine a ss strasse"),
]
