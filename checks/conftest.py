"""The fixtures of tests/, for the checks."""

from __future__ import annotations

from tests.conftest import (
    blob_port,
    browser,
    compiled_regex_strategy,
    cwd,
    own_configuration_folder,
    reference_env,
    shared_data,
)

__all__ = [
    "blob_port",
    "browser",
    "compiled_regex_strategy",
    "cwd",
    "own_configuration_folder",
    "reference_env",
    "shared_data",
]
