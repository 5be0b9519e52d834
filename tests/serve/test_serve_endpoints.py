"""The whole circle: our own endpoint kinds ask `tunecheck serve`, which answers as the simulated model would."""

from __future__ import annotations
