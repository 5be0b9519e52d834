"""The whole circle: our endpoint kinds call `tunecheck serve`, which answers like the simulated model."""

from __future__ import annotations
