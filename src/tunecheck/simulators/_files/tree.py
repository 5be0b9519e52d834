"""The tree that the simulated file system works on: its nodes, how it is read from a configuration, and its limits.

BFCL's data rest on how its file system copies and moves directories, and so does this tree: a moved directory goes on
sharing its entries with the node it was moved from, a copied one shares the entries' nodes with the original, and both
keep the parents that these nodes had. So a tree may hold a node in several places, but never inside itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NoReturn, TypeAlias

from tunecheck._errors import DataError
from tunecheck._json import JSON
from tunecheck.simulators._base import SimulatorError

MAX_ENTRIES = 20_000
"""Most files and directories in a tree; those of BFCL with long context stay below 1,000."""

MAX_CHARACTERS = 20_000_000
"""Most characters in all files and names together, each counted wherever the tree holds it."""

MAX_DEPTH = 100
"""Most directories inside each other."""


class File:
    """A file; its content is text, or whatever else a call has written to it."""

    __slots__ = ("content", "name")

    def __init__(self, name: str, content: JSON = "") -> None:
        self.name = name
        self.content = content


class Directory:
    """A directory and its entries by name; `parent` is where it was made, None for the root."""

    __slots__ = ("contents", "name", "parent")

    def __init__(self, name: str, parent: Directory | None = None, contents: dict[str, Node] | None = None) -> None:
        self.name = name
        self.parent = parent
        self.contents: dict[str, Node] = {} if contents is None else contents


Node: TypeAlias = File | Directory


def read_directory(
    name: str, config: JSON, where: str, parent: Directory | None = None, *, depth: int = 0
) -> Directory:
    """A directory from its configuration `{"type": "directory", "contents": {name: {…}, …}}`.

    Raises:
        DataError: the configuration is not of this form, or too deep; the text says where.
    """
    contents = config.get("contents") if isinstance(config, dict) else None
    if not isinstance(contents, dict):
        raise DataError(f"{where} needs 'contents', an object with the directory's entries")
    if depth > MAX_DEPTH:
        raise DataError(f"{where[:200]}…: directories nested deeper than {MAX_DEPTH}")
    directory = Directory(name, parent)
    for entry, settings in contents.items():
        directory.contents[entry] = _read_node(entry, settings, f"{where}.{entry}", directory, depth + 1)
    return directory


def _read_node(name: str, config: JSON, where: str, parent: Directory, depth: int) -> Node:
    sort = config.get("type") if isinstance(config, dict) else None
    if sort == "directory":
        return read_directory(name, config, where, parent, depth=depth)
    if sort != "file" or not isinstance(config, dict):
        raise DataError(f"{where} needs a 'type': 'file' or 'directory'")
    if "content" not in config:
        raise DataError(f"{where}, a file, needs 'content'")
    return File(name, config["content"])


def measure(directory: Directory) -> tuple[int, int, int]:
    """Entries, characters and depth of a tree, as it looks when it is listed: shared nodes count where they appear.

    Raises:
        SimulatorError: a directory holds itself, or they are nested too deeply to be gone through.
    """
    return _size(directory, 0, {})


def _size(node: Directory, depth: int, known: dict[int, tuple[int, int, int] | None]) -> tuple[int, int, int]:
    # Not a function inside `measure`: it would hold itself, and what it knows, until the next collection of garbage.
    if id(node.contents) in known:
        return known[id(node.contents)] or _endless()
    if depth > 2 * MAX_DEPTH:
        _endless()
    known[id(node.contents)] = None
    entries = characters = height = 0
    for name, entry in node.contents.items():
        inner = _size(entry, depth + 1, known) if isinstance(entry, Directory) else (0, _length(entry.content), 0)
        entries += 1 + inner[0]
        characters += len(name) + inner[1]
        height = max(height, inner[2])
    known[id(node.contents)] = found = (entries, characters, height + 1)
    return found


def _endless() -> NoReturn:
    raise SimulatorError("a directory cannot be put inside itself, nor too many inside each other")


def _length(content: JSON) -> int:
    return len(content) if isinstance(content, str) else len(str(content))


def descendants(directory: Directory, prefix: str) -> Iterator[tuple[str, Node]]:
    """All entries below a directory with their paths, each directory before what is in it.

    Raises:
        SimulatorError: there are more than `MAX_ENTRIES`.
    """
    room, entries = MAX_CHARACTERS, MAX_ENTRIES
    open_directories = [(prefix, iter(directory.contents.items()))]
    while open_directories:
        above, listing = open_directories[-1]
        found = next(listing, None)
        if found is None:
            open_directories.pop()
            continue
        path = f"{above}/{found[0]}"
        room, entries = room - len(path), entries - 1
        if room < 0 or entries < 0:
            raise SimulatorError("there is too much below this directory to go through")
        yield path, found[1]
        if isinstance(found[1], Directory):
            open_directories.append((path, iter(found[1].contents.items())))


def plain(directory: Directory) -> dict[str, object]:
    """Entries by name: a dict is a directory, text a file; `("content", value)` a file that holds something else."""
    return {name: _plain_node(entry) for name, entry in directory.contents.items()}


def _plain_node(node: Node) -> object:
    if isinstance(node, Directory):
        return plain(node)
    return node.content if isinstance(node.content, str) else ("content", node.content)


def shown(node: Node) -> str:
    """A node in the text form of BFCL's logs."""
    if isinstance(node, File):
        return f"<<File: {node.name}, Content: {node.content}>>"
    parent = node.parent.name if node.parent else None
    entries = ", ".join(f"{name!r}: {shown(entry)}" for name, entry in node.contents.items())
    return f"<Directory: {node.name}, Parent: {parent}, Contents: {{{entries}}}>"


def pad(directory: Directory, text: str, names: Sequence[str], unpadded: Collection[str]) -> None:
    """Make a tree longer: `text` after each file's own, and empty files of these names in each lowest directory.

    Files whose name is in `unpadded` stay as they are.
    """
    entries = list(directory.contents.values())
    for entry in entries:
        if isinstance(entry, Directory):
            pad(entry, text, names, unpadded)
        elif entry.name not in unpadded and isinstance(entry.content, str):
            entry.content += text
    if not any(isinstance(entry, Directory) for entry in entries):
        for name in names:
            directory.contents.setdefault(name, File(name))
