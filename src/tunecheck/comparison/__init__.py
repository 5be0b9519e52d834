"""Runs compared row by row: which iteration is better, at what, how sure that is, and which rows changed.

compare(base, new)                     # -> Comparison
comparison.metrics["bleu"].verdict     # "better", "worse", "no difference shown", "too little data"

A run goes through here so: `reading` opens it, `building` makes a table of numbers, `pairing` finds each row's partner,
`measuring` tests a metric, `deciding` puts it into a word, `changes` lists the rows.
"""
