"""Runs: their folders, what is kept of them, and taking them up again."""
