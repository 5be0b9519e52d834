"""Where a local embedding model stands: a folder, an installed package that carries one, the Hugging Face cache.

Nothing is ever downloaded.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tunecheck._errors import ConfigurationError

WEIGHTS = "model.safetensors"
_NEEDED = ("config.json", "tokenizer.json", WEIGHTS)
_PICKLED = "pytorch_model.bin"

_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_IN_CACHE = re.compile(r"(?!.*\.\.)[\w.-]+(?:/[\w.-]+)?\Z", re.ASCII)
_USUAL_OWNER = "sentence-transformers"


def find_model(name: str) -> Path:
    """The folder of a model, by its path or name.

    Raises:
        ConfigurationError: there is none, or it lacks a file.
    """
    for folder in _places(name):
        if is_folder(folder):
            return _complete(folder, name)
    raise ConfigurationError(
        f"there is no embedding model {name!r}: neither a folder, nor an installed package that carries one, nor in "
        f"the Hugging Face cache ({_cache()}); nothing is downloaded here"
    )


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; a name that cannot be one is none."""
    try:
        return path.is_dir()
    except OSError:  # too long, say
        return False


def is_file(path: Path) -> bool:
    """Whether there is such a file."""
    try:
        return path.is_file()
    except OSError:
        return False


def _complete(folder: Path, name: str) -> Path:
    missing = [file for file in _NEEDED if not (folder / file).is_file()]
    if not missing:
        return folder.resolve()
    hint = ""
    if WEIGHTS in missing and (folder / _PICKLED).is_file():
        hint = f" ({_PICKLED} may run code when it is read, and is not: convert it to safetensors)"
    raise ConfigurationError(f"the embedding model {name!r} lacks {', '.join(missing)} in {folder}{hint}")


def _places(name: str) -> Iterator[Path]:
    yield Path(name).expanduser()
    if _PACKAGE.match(name):
        yield from _in_package(name.replace("-", "_").replace(".", "_"))
    if _IN_CACHE.match(name):
        yield from _in_cache(name if "/" in name else f"{_USUAL_OWNER}/{name}")


def _in_package(module: str) -> Iterator[Path]:
    """The folders of an installed package that hold a model; the package is not imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # a module that is no package, half imported or made by hand
        return
    for place in (spec.submodule_search_locations or ()) if spec else ():
        files = [Path(place) / "config.json", *sorted(Path(place).glob("*/config.json"))]
        yield from (path.parent for path in files if is_file(path))


def _in_cache(name: str) -> Iterator[Path]:
    """The snapshot that a name's main branch stood for when it was downloaded."""
    folder = _cache() / f"models--{name.replace('/', '--')}"
    try:
        revision = (folder / "refs" / "main").read_text("ascii").strip()
    except (OSError, ValueError):
        return
    if re.fullmatch(r"[0-9a-f]{7,64}", revision):
        yield folder / "snapshots" / revision


def _cache() -> Path:
    """The cache's folder, by the variables that Hugging Face's own packages read."""
    if hub := os.environ.get("HF_HUB_CACHE"):
        return Path(hub).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(home).expanduser() / "hub"
