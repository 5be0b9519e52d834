"""Runs compared row by row: which iteration is better, at what, how sure that is, and which rows changed.

compare(base, new)                     # -> Comparison
comparison.metrics["bleu"].verdict     # "better", "worse", "no difference shown", "too little data"

A run goes through here so: `_reading` opens it, `_building` makes a table of numbers, `_pairing` finds each row's
partner, `_measuring` tests a metric and puts it into a word, `_changes` lists the rows.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
