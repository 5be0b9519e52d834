"""Scores of memory tests by words alone."""
