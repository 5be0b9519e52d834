"""The tree of the simulated file system: nodes, reading, changes, and limits.

BFCL's data depend on how its file system copies and moves directories, so this tree behaves in the same way. A moved
directory still shares its dict of entries with the old node. A copied directory has its own dict, but the same nodes in
it. In both cases, these nodes keep their parents. So a node may be in several places of a tree, but never in itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NoReturn, TypeAlias

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck.simulators import SimulatorError

MAX_ENTRIES = 20_000
"""The most files and directories in a tree. BFCL's trees with long context have fewer than 1,000."""

MAX_CHARACTERS = 20_000_000
"""The most characters in all files and names. A node in several places counts several times."""

MAX_DEPTH = 100
"""The most levels of nested directories."""

MAX_MEASURED = 3_000_000
"""Entries that are gone through in one conversation to see whether there is room; some seconds of work."""


class File:
    __slots__ = ("content", "name")

    def __init__(self, name: str, content: JSON = "") -> None:
        self.name = name
        self.content = content


class Directory:
    """A directory and its entries by name. `parent` is the directory in which it was made, None for the root."""

    __slots__ = ("contents", "name", "parent")

    def __init__(self, name: str, parent: Directory | None = None, contents: dict[str, Node] | None = None) -> None:
        self.name = name
        self.parent = parent
        self.contents: dict[str, Node] = {} if contents is None else contents


Node: TypeAlias = File | Directory


def read_directory(
    name: str, config: JSON, where: str, parent: Directory | None = None, *, depth: int = 0
) -> Directory:
    """Read a directory and its entries from the configuration `{"type": "directory", "contents": {name: {…}, …}}`.

    `where` is the configuration's place for errors.

    Raises:
        DataError: the configuration has another form, or is nested too deeply.
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
    """Read a file or directory from its configuration. Raises DataError as `read_directory` does."""
    sort = config.get("type") if isinstance(config, dict) else None
    if sort == "directory":
        return read_directory(name, config, where, parent, depth=depth)
    if sort != "file" or not isinstance(config, dict):
        raise DataError(f"{where} needs a 'type': 'file' or 'directory'")
    if "content" not in config:
        raise DataError(f"{where}, a file, needs 'content'")
    return File(name, config["content"])


def measure(directory: Directory) -> tuple[int, int, int]:
    """Return the number of entries, the number of characters, and the depth of a tree.

    Shared nodes count in every place.

    Raises:
        SimulatorError: a directory contains itself.
    """
    return _size(directory, 0, {})


def _size(node: Directory, depth: int, known: dict[int, tuple[int, int, int] | None]) -> tuple[int, int, int]:
    """Return the entries, characters and depth below a directory.

    `known` has the results for entries that are shared by several directories, and None while they are being measured:
    a second visit then means that a directory contains itself.
    """
    # Not a nested function: it would form a reference cycle, which keeps `known` until a garbage collection.
    if id(node.contents) in known:
        return known[id(node.contents)] or _endless()
    if depth > 2 * MAX_DEPTH:
        _endless()
    known[id(node.contents)] = None
    entries = characters = height = 0
    for name, entry in node.contents.items():
        inner = (
            _size(entry, depth + 1, known)
            if isinstance(entry, Directory)
            else (0, len(entry.content) if isinstance(entry.content, str) else len(str(entry.content)), 0)
        )
        entries += 1 + inner[0]
        characters += len(name) + inner[1]
        height = max(height, inner[2])
    known[id(node.contents)] = size = (entries, characters, height + 1)
    return size


def _endless() -> NoReturn:
    """Refuse a tree that contains itself or is nested too deeply."""
    raise SimulatorError("a directory cannot contain itself, and directories cannot be nested too deeply")


def descendants(directory: Directory, prefix: str) -> Iterator[tuple[str, Node]]:
    """Yield all entries below a directory with their paths, each directory before its contents.

    Raises:
        SimulatorError: there are too many entries, or their paths are too long together.
    """
    room, entries = MAX_CHARACTERS, MAX_ENTRIES  # shared directories may make even a small tree endless
    open_directories = [(prefix, iter(directory.contents.items()))]
    while open_directories:
        above, listing = open_directories[-1]
        entry = next(listing, None)
        if entry is None:
            open_directories.pop()
            continue
        path = f"{above}/{entry[0]}"
        room, entries = room - len(path), entries - 1
        if room < 0 or entries < 0:
            raise SimulatorError("there is too much below this directory to go through")
        yield path, entry[1]
        if isinstance(entry[1], Directory):
            open_directories.append((path, iter(entry[1].contents.items())))


def plain(directory: Directory) -> dict[str, object]:
    """Return the entries by name: a dict for a directory, a text for a file, `("content", value)` for other content."""
    entries: dict[str, object] = {}
    for name, entry in directory.contents.items():
        if isinstance(entry, Directory):
            entries[name] = plain(entry)
        else:
            entries[name] = entry.content if isinstance(entry.content, str) else ("content", entry.content)
    return entries


def node_text(node: Node) -> str:
    """Return a node in the text form of BFCL's logs."""
    if isinstance(node, File):
        return f"<<File: {node.name}, Content: {node.content}>>"
    parent = node.parent.name if node.parent else None
    entries = ", ".join(f"{name!r}: {node_text(entry)}" for name, entry in node.contents.items())
    return f"<Directory: {node.name}, Parent: {parent}, Contents: {{{entries}}}>"


def pad(directory: Directory, text: str, names: Sequence[str], unpadded: Collection[str]) -> None:
    """Make a tree longer: append `text` to each file, and add empty files to each directory without subdirectories.

    `names` are the names of the empty files. Files with a name in `unpadded` do not change.
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


class Volume:
    """A tree and its current directory.

    A change that exceeds the limits, or puts a directory into itself, is refused and undone.
    """

    def __init__(self, root: Directory) -> None:
        """Start at the root of a tree.

        Raises:
            DataError: the tree exceeds the limits.
        """
        self.root = root
        self.current = root
        self._plain: dict[str, object] | None = None
        self._measured = 0
        if _is_over_limits(*measure(root)):
            raise DataError(
                "initial_config.GorillaFileSystem.root is too large for a simulated file system; make it smaller"
            )

    def plain(self) -> dict[str, object]:
        """Return the tree as plain data under the root's name. It is cached until the next change."""
        if self._plain is None:
            self._plain = {self.root.name: plain(self.root)}
        return self._plain

    def find(self, name: str) -> Node | None:
        """Return an entry of the current directory, or None if there is none of that name.

        "." is the directory itself only if it also has an entry of the name ".", as in BFCL.
        """
        entry = self.current.contents.get(name)
        return self.current if name == "." and entry else entry

    def entry(self, name: str, command: str) -> Node:
        """Return an entry of the current directory, or raise SimulatorError. `command` begins the message."""
        entry = self.find(name)
        if entry is None:
            raise SimulatorError(f"{command}: there is no '{name}' here")
        return entry

    def at(self, path: str) -> Directory:
        """Return the directory at a path, relative to the current directory or absolute, without `..`.

        Raises:
            SimulatorError: a part of the path is not a directory.
        """
        directory = self.root if path.startswith("/") else self.current
        if path == "/":
            return directory
        for step in path.strip("/").split("/"):
            entry = directory if step == "." else directory.contents.get(step)
            if not isinstance(entry, Directory):
                raise SimulatorError(f"find: there is no directory '{path}'")
            directory = entry
        return directory

    def add(self, node: Node, directory: Directory) -> None:
        """Put a node into a directory."""
        directory.contents[node.name] = node
        self._keep(lambda: directory.contents.pop(node.name))

    def copy(self, node: Node, directory: Directory, name: str) -> None:
        """Put a copy of a node into a directory: a file's content, or a directory's entries, which are the same nodes.

        Raises:
            SimulatorError: there is no room, or a directory would contain itself.
        """
        if isinstance(node, File):
            self.add(File(name, node.content), directory)
            return
        # First the empty copy: a directory that is copied into itself then contains itself, and `add` refuses it.
        copied = directory.contents[name] = Directory(name, directory)
        copied.contents.update(node.contents)
        self.add(copied, directory)

    def move(self, name: str, node: Node, directory: Directory, new_name: str) -> None:
        """Move an entry of the current directory. A moved directory shares its entries with the old node.

        If the new place refuses the entry, the current directory gets its old entries in their old order.
        """
        here, before = self.current.contents, dict(self.current.contents)
        del here[name]
        moved = (
            File(new_name, node.content) if isinstance(node, File) else Directory(new_name, directory, node.contents)
        )
        try:
            self.add(moved, directory)
        except SimulatorError:
            here.clear()
            here.update(before)
            raise

    def write(self, file: File, content: JSON) -> None:
        """Replace the content of a file."""
        before, file.content = file.content, content
        self._keep(lambda: setattr(file, "content", before))

    def remove(self, name: str) -> None:
        """Remove an entry of the current directory."""
        del self.current.contents[name]
        self._plain = None

    def _keep(self, undo: Callable[[], object]) -> None:
        """Check the tree after a change. If it is too large or endless, call `undo` and raise SimulatorError."""
        self._plain = None
        try:
            if not self._has_room():
                raise SimulatorError("there is no room left in the file system")
        except SimulatorError:
            undo()
            raise

    def _has_room(self) -> bool:
        """Return True if the tree is within its limits.

        Once a conversation has measured MAX_MEASURED entries, the answer is always False, which bounds the time.
        """
        if self._measured > MAX_MEASURED:
            return False
        entries, characters, depth = measure(self.root)
        self._measured += entries
        return self._measured <= MAX_MEASURED and not _is_over_limits(entries, characters, depth)


def _is_over_limits(entries: int, characters: int, depth: int) -> bool:
    return entries > MAX_ENTRIES or characters > MAX_CHARACTERS or depth > MAX_DEPTH
