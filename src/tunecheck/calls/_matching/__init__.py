"""Typed matching of calls that explains itself: pairs, kinds of differences, policies."""
