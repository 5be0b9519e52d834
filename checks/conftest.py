"""The fixtures of tests/, for the checks."""

from __future__ import annotations

from tests.conftest import compiled_regex_strategy, reference_env, shared_data

__all__ = ["compiled_regex_strategy", "reference_env", "shared_data"]
