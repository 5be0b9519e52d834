"""Trust: which files a command may load or write, and which names data may use (docs/security.md).

`Trust.check` allows a file to be loaded if one of these holds, in this order:

1. The user typed its name, or `--trust` covers the data that names it.
2. `--trust` covers the file, or `tunecheck trust` has approved its content.
3. The name is in a file of the workspace (or one with approved content), and the file is in the workspace's folder for
   such files, such as `evaluators/`. This does not hold for acts that `never` rules out for names in data.

`tunecheck trust` stores a record in the user's folder, named by the content's hash, so it ends when the content
changes. `signature` signs content with the user's key: by it, commands recognise the user's own runs.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from tunecheck._disk import user_folder
from tunecheck._errors import ConfigurationError, UntrustedError, error_text
from tunecheck._json import JSON, canonical
from tunecheck._messages import command_line

_KEY_BYTES = 32
"""Length of the user's key for signatures, in bytes."""

_MOST_FILES = 10_000
"""Maximum number of files in a folder that is trusted by content."""


@dataclass(frozen=True, slots=True)
class Trust:
    """The origin of a name, and the permissions of the user.

    `workspace` is the folder the command runs in, `allowed` the files and folders of `--trust`. `named_by` is the file
    that contains the name, None if the user typed it. `on_code` is called with a workspace file before its code is
    loaded.
    """

    workspace: Path = field(default_factory=lambda: Path().resolve())
    allowed: tuple[Path, ...] = ()
    named_by: Path | None = None
    on_code: Callable[[Path], None] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_command(cls, allowed: Iterable[str], on_code: Callable[[Path], None] | None = None) -> Trust:
        """Return the trust for a command typed in the current folder; `allowed` are the paths of --trust.

        `on_code` is called with each code file of the workspace before it is loaded.

        Raises:
            ConfigurationError: a path of `--trust` does not exist.
        """
        paths = tuple(Path(path).expanduser().resolve() for path in allowed)
        for path in paths:
            if not path.exists():
                raise ConfigurationError(f"--trust {path}: there is no such file or folder: correct the path")
        return cls(allowed=paths, on_code=on_code)

    def of(self, *files: Path) -> Trust:
        """Return the trust for names that the data in `files[0]` contains; `files` are all files of the data.

        If `--trust` covers any of the files, or there are no files, the names count as typed by the user.
        """
        resolved = [file.resolve() for file in files]
        if not resolved or any(self._is_allowed(file) for file in resolved):
            return replace(self, named_by=None)
        return replace(self, named_by=resolved[0])

    def of_options(self, file: Path) -> Trust:
        """Return the trust for names in an options file; if it is in the workspace, they count as typed by the user."""
        return self if self.in_workspace(file) else self.of(file)

    def in_workspace(self, file: Path) -> bool:
        """Return True if a file is in the workspace after links are resolved."""
        return file.resolve().is_relative_to(self.workspace)

    def check(self, file: Path, act: str, *, folder: str = "", never: bool = False) -> None:
        """Check that a file may be loaded. `act` says in the error what would happen, such as "run code".

        The file may be loaded if the user typed its name or trusts it. Unless `never`, names in a file of the workspace
        or an approved file may also refer to files below the workspace's `folder`. If the file may be loaded and is
        code of the workspace, `on_code` is called.

        Raises:
            UntrustedError: the file may not be loaded; the text says which file named it, for what, and how to allow
                it.
        """
        # Links are resolved first, so that a link in the workspace cannot lead to a file elsewhere.
        file, namer = file.resolve(), self.named_by
        if namer is not None and not self._is_allowed(file) and not is_remembered(file):
            is_namer_trusted = self.in_workspace(namer) or is_remembered(namer)
            may_load = is_namer_trusted and not never and file.is_relative_to(self.workspace / folder)
            if not may_load:
                # If only the naming file lacks trust, the user needs to approve only that one.
                approve_namer = not is_namer_trusted and not never and self.in_workspace(file)
                raise self.refusal(f"would {act} ({self._short_path(file)})", namer if approve_namer else file)

        if self.on_code is not None and file.suffix == ".py" and self.in_workspace(file):
            self.on_code(file.relative_to(self.workspace))

    def refusal(self, use: str, path: Path) -> UntrustedError:
        """Return the error for a file that the user did not name.

        `use` says what would be done with the file; `path` is the file to allow.
        """
        naming_file, shown = self._short_path(self.named_by or path), command_line([self._short_path(path)])
        return UntrustedError(
            f"{naming_file} {use}, which needs your consent: allow this once with --trust {shown}, "
            f"or with `tunecheck trust {shown}` until the content changes"
        )

    def _is_allowed(self, path: Path) -> bool:
        """Return True if `--trust` names the path or a folder around it."""
        return any(path.is_relative_to(place) for place in self.allowed)

    def _short_path(self, path: Path) -> str:
        """Return a path as text, relative to the workspace if it is inside."""
        return str(path.relative_to(self.workspace) if path.is_relative_to(self.workspace) else path)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without `on_code`: other processes print no notes."""
        return Trust, (self.workspace, self.allowed, self.named_by)


def remember(path: Path) -> list[tuple[Path, Path]]:
    """Trust the current content of a file, or of each file below a folder; return each file with its trust record.

    Raises:
        ConfigurationError: the path has no file or more than 10,000, or a file or the user's folder cannot be used.
    """
    if not path.exists():
        raise ConfigurationError(f"{path}: there is no such file or folder: correct the path")

    below = (entry for entry in path.rglob("*") if entry.is_file())
    files = [path] if path.is_file() else sorted(islice(below, _MOST_FILES + 1))

    if not files or len(files) > _MOST_FILES:
        problem = f"over {_MOST_FILES:,} files: trust a smaller folder" if files else "no files: name another path"
        raise ConfigurationError(f"{path} cannot be trusted, because it has {problem}")
    try:
        folder = _records_folder()
        for private in (folder.parent, folder):  # `mode` does not hold for parents
            private.mkdir(parents=True, exist_ok=True, mode=0o700)

        records = [(file, folder / _record_name(file)) for file in files]
        for file, record in records:
            record.write_text(f"{file.resolve()}\n", "utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: the approval cannot be saved: {error_text(error)}") from None
    return records


def is_remembered(file: Path) -> bool:
    """Return True if the user has trusted the current content of a file."""
    try:
        # A record's name ends in the file's size, so that a file of another size is not hashed.
        is_size_known = any(_records_folder().glob(f"*-{file.stat().st_size}"))
        return is_size_known and file.is_file() and (_records_folder() / _record_name(file)).is_file()
    except OSError:
        return False


def _records_folder() -> Path:
    """Return the folder of the user's trust records."""
    return user_folder() / "trusted"


def _record_name(file: Path) -> str:
    """Return the name of a file's trust record: the content's SHA-256 and its size."""
    with file.open("rb") as opened:
        return f"{hashlib.file_digest(opened, 'sha256').hexdigest()}-{file.stat().st_size}"


def signature(content: JSON) -> str | None:
    """Return this user's signature of the content on this machine; None if no key can be stored."""
    key = _key() or _new_key()
    return None if key is None else _sealed(key, content)


def is_signed(content: JSON, seal: str | None) -> bool:
    """Return True if `seal` is this user's signature of the content; False without a `seal` or a key."""
    key = _key()
    return key is not None and seal is not None and hmac.compare_digest(_sealed(key, content).encode(), seal.encode())


def _sealed(key: bytes, content: JSON) -> str:
    """Return the signature of the content with this key: an HMAC-SHA-256 in hexadecimal."""
    return hmac.new(key, canonical(content), hashlib.sha256).hexdigest()


def _key() -> bytes | None:
    """Return the user's key; None if there is none, or its file does not hold a key."""
    try:
        key = (user_folder() / "key").read_bytes()
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def _new_key() -> bytes | None:
    """Create the user's key, unreadable for other users, and return it; None if it cannot be stored.

    If another process was faster, its key is returned.
    """
    try:
        folder = user_folder()
        fresh = folder / f".key.{os.getpid()}.{secrets.token_hex(4)}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))

        # The key is written under another name first, so that other processes never read half a key.
        try:  # both calls fail if there is a key by now, which must not be replaced
            if sys.platform == "win32":
                fresh.rename(folder / "key")  # on Windows, it replaces no file
            else:
                os.link(fresh, folder / "key")
        except FileExistsError:
            pass
        finally:
            fresh.unlink(missing_ok=True)
    except OSError:  # a read-only home folder: runs are not signed
        return None

    return _key()
