"""Data sets made from what is known of a model: failed rows as examples to train on.

It offers `_export.export` to the command line.
"""
