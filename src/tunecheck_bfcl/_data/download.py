"""`tunecheck bfcl get`: fetch the benchmark's data from the package index and unpack it, without running any code.

The package is a wheel, which is downloaded without dependencies. Only the data and a few files with constants and texts
(`TEXTS`) are kept, as plain files in a folder that is on no import path.

`get_bfcl` does these steps in a temporary folder next to the target, so that a failed step leaves an earlier copy:

  1. download the wheel with pip, unless the user gives one (`_fetch`)
  2. compare its SHA-256 with `WHEEL_SHA256`, and unpack it (`_fill`)
  3. refuse an incomplete copy (`_check`)
  4. rename the folder; an earlier copy is deleted with the temporary folder
"""

import hashlib
import importlib.util
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from tunecheck import ConfigurationError, DataError
from tunecheck.plugins import plural, raise_as
from tunecheck_bfcl._data.files import TEXTS, VERSION, default_folder, find_bfcl

PACKAGE = f"bfcl-eval=={VERSION}"

WHEEL_SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"

_DOWNLOAD_YOURSELF = f"download {PACKAGE} yourself and run: tunecheck bfcl get --from WHEEL"
_KEPT_TEXTS = [PurePosixPath("bfcl_eval") / text.as_posix() for text in TEXTS]
_TIME_LIMIT_S = 600
"""The most seconds for pip's download of the wheel, which has about 2 MB."""

# The user and password in an index's address: https://me:secret@host/simple becomes https://***@host/simple.
_CREDENTIALS = re.compile(r"://[^/\s@]+@")


def get_bfcl(*, to: Path | None = None, source: Path | None = None) -> Path:
    """Put the data of BFCL into a folder and return the folder's path. Without `source`, a complete copy is kept.

    Args:
        to: The folder; by default one in the user's cache, where `bfcl:…` finds it.
        source: The wheel of that release; by default pip downloads it from the configured package index.

    Raises:
        DataError: the data cannot be fetched, is incomplete, or has the wrong checksum.
        ConfigurationError: `to` contains other files, or cannot be written.
    """
    folder = (to or default_folder()).expanduser()
    if source is None and _is_complete(folder):
        return folder

    # The folder is replaced as a whole, so the user's own files must not be in it.
    if _holds_other_files(folder):
        raise ConfigurationError(f"{folder} is neither empty nor a copy of BFCL's data; give another folder with --to")

    with raise_as(ConfigurationError, folder, "cannot be written"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            unpacked = Path(scratch, "unpacked")
            _fill(unpacked, source, Path(scratch))
            _check(unpacked)
            # Renamed, so that the data is never incomplete. A folder cannot be renamed onto one that has files.
            if folder.exists():
                folder.rename(Path(scratch, "old"))
            unpacked.rename(folder)
    return folder


def _holds_other_files(folder: Path) -> bool:
    """Return True if the path is a file or a broken link, or a folder with files that are not a copy of the data."""
    if folder.is_dir():
        return [path.name for path in folder.iterdir()] not in ([], ["bfcl_eval"])
    return folder.exists() or folder.is_symlink()


def _fill(unpacked: Path, wheel: Path | None, scratch: Path) -> None:
    """Unpack a wheel into a folder after checking its checksum. Without a wheel, download it to `scratch` first.

    Raises:
        DataError: the wheel is missing, cannot be downloaded, or has another checksum.
    """
    wheel = _fetch(scratch / "fetched") if wheel is None else wheel
    if not wheel.is_file():
        raise DataError(f"--from: {wheel} is no file; give a wheel, or use a folder with `tunecheck bfcl run --data`")

    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != WHEEL_SHA256:
        raise DataError(f"{wheel} is not the wheel of {PACKAGE} (sha256 {digest}, not {WHEEL_SHA256}); get that wheel")

    unpack_wheel(wheel, unpacked)


def _check(folder: Path) -> None:
    """Raise DataError if a copy of the data lacks files."""
    if missing := find_bfcl(folder).missing():
        others = f" and {plural(len(missing) - 1, 'more file')}" if len(missing) > 1 else ""
        raise DataError(f"the wheel lacks {missing[0].relative_to(folder)}{others}; download it again")


def _is_complete(folder: Path) -> bool:
    """Return True if a folder has a copy with all files."""
    try:
        return not find_bfcl(folder).missing()
    except DataError:
        return False


def _fetch(folder: Path) -> Path:
    """Download the wheel with pip into a new folder, without its dependencies, and return its path.

    Raises:
        DataError: pip is missing or fails.
    """
    folder.mkdir()
    if importlib.util.find_spec("pip") is None:
        raise DataError(f"pip is missing; install pip, or {_DOWNLOAD_YOURSELF}")

    # --only-binary: building a source package would run its code.
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), PACKAGE]

    try:
        process = subprocess.run(  # noqa: S603
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=_TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"pip did not finish within {_TIME_LIMIT_S} s; {_DOWNLOAD_YOURSELF}") from None

    # The index's address may contain a password, which pip's error may show. It is masked below.
    wheel = next(folder.glob("*.whl"), None)
    if process.returncode or wheel is None:
        last_line = (process.stderr or process.stdout).strip().rpartition("\n")[2]
        problem = _CREDENTIALS.sub("://***@", last_line)[:500] or f"exit code {process.returncode}"
        raise DataError(f"pip cannot download {PACKAGE}: {problem}; correct the cause, or {_DOWNLOAD_YOURSELF}")
    return wheel


def unpack_wheel(wheel: Path, folder: Path) -> None:
    """Unpack the JSON data and the kept texts of a wheel below a folder; other files stay in the wheel.

    Raises:
        DataError: the file is not a wheel that can be read.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                # `extract` removes `..` and leading slashes from names, so nothing is written outside the folder.
                path = PurePosixPath(name)
                if path in _KEPT_TEXTS or (path.parts[:2] == ("bfcl_eval", "data") and path.suffix == ".json"):
                    archive.extract(name, folder)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DataError(f"the wheel {wheel} cannot be read: {error}; download it again") from None
