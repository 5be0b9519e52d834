"""OpenAPI files (2.0, 3.0, 3.1) as simulators: their operations as functions that work on records.

document     the file, its references followed within bounds
operations   its operations: names, parameters flattened to one schema, what they answer
resources    which records they are about, and what each does to them
samples      plausible records to start from
source       the same as a Python file, for people to edit
"""
