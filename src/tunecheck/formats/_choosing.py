"""The profile of a model family by its name: installed, or from the workspace's folder `formats`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import PluginError
from tunecheck._trust import Trust
from tunecheck.plugins import find

if TYPE_CHECKING:
    from tunecheck.formats._profiles import Profile

AUTO = "auto"
"""By unmistakable marks, whatever the family."""


def chosen(format: str | Profile, *, trust: Trust | None = None) -> Profile | None:
    """The profile of that name; None for "auto". `trust` says who names it; without it, somebody who may.

    Raises:
        PluginError: there is none of that name, there are two, or it is no profile.
        UntrustedError: who names it may not load a file of the workspace.
    """
    if format == AUTO:
        return None
    from tunecheck.formats._profiles import Profile

    return format if isinstance(format, Profile) else _found(format, Path.cwd(), trust)


@functools.lru_cache(maxsize=64)
def _found(name: str, workspace: Path, trust: Trust | None) -> Profile:
    from tunecheck.formats._profiles import Profile

    profile = find("formats", name, workspace=workspace, trust=trust)
    if not isinstance(profile, Profile):
        raise PluginError(f"the format {name!r} is {type(profile).__name__}, not a tunecheck.formats.Profile")
    return profile
