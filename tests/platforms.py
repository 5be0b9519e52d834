"""What only some systems have, for the tests that need it."""

import os

import pytest

posix_only = pytest.mark.skipif(
    os.name == "nt", reason="needs signals to processes, forks, named pipes, file modes or limits, as POSIX has them"
)
