"""Evaluators: what is right and wrong about an answer, row by row."""
