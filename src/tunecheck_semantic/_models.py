"""Find local embedding models: in a folder, an installed package, or the Hugging Face cache."""

import functools
import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tunecheck import ConfigurationError, MissingExtraError

_CONFIGURATION = "config.json"
_WEIGHTS = "*.safetensors"
_PICKLED = "pytorch_model.bin"
_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_USUAL_OWNER = "sentence-transformers"


def check_installed(feature: str) -> None:
    if importlib.util.find_spec("sentence_transformers") is None:
        raise MissingExtraError(feature, "semantic")


def find_model(name: str) -> Path:
    """Return the folder of a model, by its path or name. Nothing is downloaded.

    Raises:
        ConfigurationError: there is no such model, or it lacks a file.
    """
    # os.path.isdir returns False for names that are too long or contain a null character; Path.is_dir may raise.
    folder = next(filter(os.path.isdir, _places(name)), None)
    if folder is None:
        raise ConfigurationError(
            f"no embedding model {name!r} found (tried: a folder, an installed package, the Hugging Face cache); "
            "download the model first, because Tunecheck downloads none"
        )
    missing = [pattern for pattern in (_CONFIGURATION, _WEIGHTS) if not any(folder.glob(pattern))]
    if missing:
        # Pickled weights are not accepted, because reading them may run code.
        hint = f"; convert {_PICKLED} to safetensors" if (folder / _PICKLED).is_file() else ""
        raise ConfigurationError(f"the embedding model {name!r} lacks {', '.join(missing)} in {folder}{hint}")
    return folder.resolve()


def _places(name: str) -> Iterator[Path]:
    """Yield the possible folders of a model: a path, then folders of a package, then the Hugging Face cache."""
    yield Path(name).expanduser()
    if _PACKAGE.match(name):
        yield from _package_folders(name.replace("-", "_").replace(".", "_"))
    yield from _cached_snapshot(name if "/" in name else f"{_USUAL_OWNER}/{name}")


def _package_folders(module: str) -> Iterator[Path]:
    """Yield the folders of an installed package that contain a model. The package is not imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # a module that is not a package, half imported or made by hand
        return
    for place in (spec.submodule_search_locations or ()) if spec else ():
        files = [Path(place) / _CONFIGURATION, *sorted(Path(place).glob(f"*/{_CONFIGURATION}"))]
        yield from (path.parent for path in files if path.is_file())


def _cached_snapshot(name: str) -> Iterator[Path]:
    """Yield the folder of a model in the Hugging Face cache, if it is there."""
    from huggingface_hub import snapshot_download

    try:
        yield Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):  # not in the cache, or not a name that the cache can hold
        return


def digest(folder: Path) -> str:
    """Return a hash of the model's content as 16 hex digits, which is cached until a file changes."""
    files = sorted([*folder.rglob("*.json"), *folder.rglob(_WEIGHTS)])
    return _digest(tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files))


@functools.lru_cache(maxsize=8)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    """Return the hash of files. Their sizes and times are arguments only to make the cache notice changes."""
    found = hashlib.blake2b(digest_size=8)
    for path, *_ in files:
        with path.open("rb") as content:
            while block := content.read(1 << 20):
                found.update(block)
    return found.hexdigest()
