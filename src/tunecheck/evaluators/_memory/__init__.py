"""The evaluator of long-term-memory rows, and the judges it asks."""
