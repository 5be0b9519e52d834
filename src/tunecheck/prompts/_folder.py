"""The files that a prompt refers to: within its folder, ordinary ones, and not too much in all.

Prompts of a workspace, the current folder, may share what lies elsewhere in it: data and images that are not hidden.
"""

from pathlib import Path

_MOST_FILES = 20
_MOST_BYTES = 64 << 20
"""Of all files of one prompt; OpenAI takes requests of 50 MB."""

_SHARED = (".json", ".yaml", ".yml", ".gif", ".jpeg", ".jpg", ".png", ".webp")


class PromptFolder:
    """Reads files of a prompt's folder, which is None where the prompt was given as text."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._files_left = _MOST_FILES
        self._bytes_left = _MOST_BYTES

    def lacks(self, name: str) -> bool:
        """Whether there is a folder, and nothing of that name in it."""
        return self._path is not None and not (self._path / name).exists()

    def read(self, name: str, most: int) -> bytes:
        """The content of a file of at most so many bytes.

        Raises:
            ValueError: it is not in the folder, cannot be read or is too large, or the prompt has read too much.
        """
        if self._path is None:
            raise ValueError(f"{name!r} has no folder to be looked for in: the prompt was given as text")
        if self._files_left == 0:
            raise ValueError(f"{name!r} is one file too many: a prompt refers to at most {_MOST_FILES}")
        content = _content(self._path, name, min(most, self._bytes_left) + 1)
        if len(content) > most:
            raise ValueError(f"{name!r} is larger than {most >> 10} KiB")
        if len(content) > self._bytes_left:
            raise ValueError(f"{name!r} is too much: a prompt's files have at most {_MOST_BYTES >> 20} MB in all")
        self._files_left -= 1
        self._bytes_left -= len(content)
        return content


def _content(folder: Path, name: str, most: int) -> bytes:
    try:
        base = folder.resolve(strict=True)
        path = (base / name).resolve(strict=True)
        if not path.is_relative_to(base) and not _is_shared(path, base):
            raise ValueError(f"{name!r} is not in the prompt's folder, nor data of this workspace that it may share")
        if not path.is_file():
            raise ValueError(f"{name!r} is not a file")
        with path.open("rb") as file:
            return file.read(most)
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{name!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _is_shared(path: Path, base: Path) -> bool:
    workspace = Path.cwd().resolve()
    if not base.is_relative_to(workspace) or not path.is_relative_to(workspace):
        return False
    hidden = any(part.startswith(".") for part in path.relative_to(workspace).parts)
    return path.suffix.lower() in _SHARED and not hidden
