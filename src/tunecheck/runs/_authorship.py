"""Whether this user began a run, on this machine and in this workspace: by the signature in its manifest."""

import contextlib
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from tunecheck._errors import ConfigurationError
from tunecheck._files import RunFile
from tunecheck._json import JSON, plain
from tunecheck._trust import is_signed, signature
from tunecheck.runs._store import list_runs

_SIGNED = ("id", "parent", "command", "dataset", "evaluators", "mapping", "api")
"""What resume, reuse and score act on."""

_MOST_LOOKED_AT = 100


def signed(manifest: RunFile) -> RunFile:
    """The manifest of a run that this user begins here; unsigned where no key can be kept."""
    return replace(manifest, signature=signature(_content(manifest)))


def began_here(manifest: RunFile) -> bool:
    """Whether this user began the run in the current folder, to which the paths in it are relative."""
    return is_signed(_content(manifest), manifest.signature)


def holds_own_run(results_dir: Path) -> bool:
    """Whether one of the newest runs in a folder is this user's."""
    for run in islice(reversed([*list_runs(results_dir)]), _MOST_LOOKED_AT):
        with contextlib.suppress(ConfigurationError):
            if began_here(run.manifest()):
                return True
    return False


def _content(manifest: RunFile) -> JSON:
    return [str(Path().resolve()), *(plain(getattr(manifest, name)) for name in _SIGNED)]
