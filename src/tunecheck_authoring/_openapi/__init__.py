"""OpenAPI files (2.0, 3.0, 3.1) as simulators: operations become functions that work on records.

document     reads the file, and resolves references within bounds
operations   reads operations: names, parameters as one schema, answers
resources    finds the kinds of records, and what each operation does to them
"""
