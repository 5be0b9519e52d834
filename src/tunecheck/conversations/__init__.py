"""Conversations of several turns with simulators behind a model's calls."""
