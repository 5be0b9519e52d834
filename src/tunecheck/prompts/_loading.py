"""Load prompts from `.prompty` files."""

import os
from pathlib import Path

from tunecheck._disk import read_regular
from tunecheck._errors import PromptError
from tunecheck.prompts._front_matter import MAX_BYTES, decode_text, split_prompt
from tunecheck.prompts._prompt import Prompt, PromptFile

_SHIPPED = Path(__file__).parent / "files"
"""The folder of the prompts that come with this package."""


def shipped_prompt(name: str, folder: Path) -> Path:
    """Return the path of a shipped prompt: the user's replacement in `folder`, or else the package's own.

    The file may not exist.
    """
    replacement = folder / f"{name}.prompty"
    return replacement if replacement.is_file() else _SHIPPED / replacement.name


def load_prompt(source: str | os.PathLike[str], *, text: str | None = None) -> Prompt:
    """Load the prompt of a `.prompty` file, in either dialect.

    `text` replaces the content of the file, which then need not exist. Such a prompt cannot refer to files.

    Raises:
        PromptError: the prompt is unreadable or wrong; the error names file, line and key.
    """
    path = Path(source)
    if text is None:
        return _load(str(source), _read(path), path.parent)

    # A text has the line ends of its source; files are decoded with line feeds.
    return _load(str(source), text.replace("\r\n", "\n").replace("\r", "\n"), None)


def _load(source: str, text: str, folder: Path | None) -> Prompt:
    """Return the prompt of the file `source` with this content. Files that it refers to are searched in `folder`."""
    # Imported late, because the dialects import Jinja, which is slow.
    from tunecheck.prompts._prompty1 import read_prompty1
    from tunecheck.prompts._prompty2 import is_prompty2, read_prompty2

    front, body, above = split_prompt(text, source, folder)
    file = PromptFile(source, text, front, body, above, _load)
    return read_prompty2(file) if is_prompty2(front) else read_prompty1(file)


def _read(path: Path) -> str:
    """Return the text of a prompt file.

    Raises:
        PromptError: the file cannot be read, is too large or is not UTF-8.
    """
    try:
        content = read_regular(path, MAX_BYTES, links=True)
    except (OSError, ValueError) as error:
        raise PromptError(f"the prompt {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None

    try:
        return decode_text(content)
    except ValueError as error:
        raise PromptError(f"{path}, {error}") from None
