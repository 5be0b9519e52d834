"""What the file system's commands do with text."""

from __future__ import annotations

_UNITS = ("B", "KB", "MB", "GB", "TB")


def last_lines(text: str, lines: int) -> str:
    """The last lines without the final line feed; of a negative number, all but so many from the start."""
    found = text.splitlines()
    start = -len(found) if lines > len(found) else -lines
    return "\n".join(found[start:])


def count(text: str, mode: str) -> dict[str, int | str]:
    """Lines ("l"), words ("w") or characters ("c") of a text."""
    if mode == "c":
        return {"count": len(text), "type": "characters"}
    if mode == "w":
        return {"count": len(text.split()), "type": "words"}
    return {"count": len(text.splitlines()), "type": "lines"}


def differing_lines(first: str, second: str) -> str:
    """Lines that differ at the same place, `- ` and `+ `, as far as the shorter text goes."""
    pairs = zip(first.splitlines(), second.splitlines(), strict=False)
    return "\n".join(f"- {one}\n+ {other}" for one, other in pairs if one != other)


def readable_size(size: float) -> str:
    """A number of bytes in the largest unit in which it is at least 1."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.2f} {_UNITS[unit]}"
