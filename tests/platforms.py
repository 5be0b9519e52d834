"""Features that only some systems have, for the tests that need them."""

import os
import signal
from functools import partial

import pytest

posix_only = pytest.mark.skipif(
    os.name == "nt", reason="needs signals to processes, forks, named pipes, file modes or limits, as POSIX has them"
)

hear_ctrl_c = None if os.name == "nt" else partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
"""A child's `preexec_fn`: tests that a shell began in the background are deaf to Ctrl-C, and so were all they start."""
