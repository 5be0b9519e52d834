"""Where the user's cache is: what can be fetched again."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache: `TUNECHECK_CACHE`, else `tunecheck` in the platform's folder for caches."""
    own = os.environ.get("TUNECHECK_CACHE")
    if own:
        return Path(own).expanduser()
    given = os.environ.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():  # the specification says to ignore a relative one
        return Path(given) / "tunecheck"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tunecheck" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tunecheck"
    return Path.home() / ".cache" / "tunecheck"
