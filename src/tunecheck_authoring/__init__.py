"""Data sets made: from services that stand as simulators, and from failed rows as examples to train on.

It offers `_author.pipeline.author` and `_export.export` to the command line.
"""
