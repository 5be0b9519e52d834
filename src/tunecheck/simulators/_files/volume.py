"""A file tree in use: the directory one is in, what can be looked up there, and changes within bounds."""

from __future__ import annotations

from collections.abc import Callable

from tunecheck._errors import DataError
from tunecheck._json import JSON
from tunecheck.simulators._base import SimulatorError
from tunecheck.simulators._files import tree as file_tree
from tunecheck.simulators._files.tree import Directory, File, Node

MAX_MEASURED = 3_000_000
"""Entries that are gone through in one conversation to see whether there is room; some seconds of work."""


class Volume:
    """A tree and its current directory.

    Every change keeps the tree within its limits: what would break them, or put a directory into itself, is refused
    and leaves everything as it was.

    Raises:
        DataError: the tree is too large from the start.
    """

    def __init__(self, root: Directory) -> None:
        self.root = root
        self.current = root
        self._shares_nodes = False
        self._plain: dict[str, object] | None = None
        self._measured = 0
        self._entries, self._characters, self._depth = file_tree.measure(root)
        if self._over_limits():
            raise DataError("initial_config.GorillaFileSystem.root is larger than a simulated file system may be")

    def plain(self) -> dict[str, object]:
        """The tree as plain data under the root's name; made anew only after a change."""
        if self._plain is None:
            self._plain = {self.root.name: file_tree.plain(self.root)}
        return self._plain

    def find(self, name: str) -> Node | None:
        """An entry of the current directory; where one is named ".", that name means the directory itself."""
        entry = self.current.contents.get(name)
        return self.current if name == "." and entry else entry

    def entry(self, name: str, command: str) -> Node:
        """The same; a command's error where there is none."""
        entry = self.find(name)
        if entry is None:
            raise SimulatorError(f"{command}: there is no '{name}' here")
        return entry

    def at(self, path: str) -> Directory:
        """The directory at a path from here, or from the root where it begins with "/"; `..` has no meaning in it."""
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
        """Put a new node into a directory, which has none of that name."""
        directory.contents[node.name] = node
        inside = False
        if isinstance(node, Directory):
            self._depth += 1
            inside = bool(node.contents)
        self._grown(len(node.name), lambda: directory.contents.pop(node.name), exactly=inside)

    def copy(self, node: Node, directory: Directory, name: str) -> None:
        """Put a copy of a node into a directory: the content of a file, the entries of a directory."""
        if isinstance(node, File):
            self.add(File(name, node.content), directory)
            return
        copied = directory.contents[name] = Directory(name, directory)
        copied.contents.update(node.contents)
        self._shares_nodes = self._shares_nodes or bool(copied.contents)
        self.add(copied, directory)

    def move(self, name: str, node: Node, directory: Directory, new_name: str) -> None:
        """Move an entry of the current directory; whoever is still in a moved directory goes on working in the new."""
        here, before = self.current.contents, dict(self.current.contents)
        del here[name]
        try:
            if isinstance(node, File):
                self.add(File(new_name, node.content), directory)
            else:
                self.add(Directory(new_name, directory, node.contents), directory)
        except SimulatorError:
            here.clear()
            here.update(before)
            raise

    def write(self, file: File, content: JSON) -> None:
        """Replace what is in a file."""
        before, file.content = file.content, content
        length = len(content if isinstance(content, str) else str(content))
        self._grown(length, lambda: setattr(file, "content", before))

    def remove(self, name: str) -> None:
        """Remove an entry of the current directory."""
        del self.current.contents[name]
        self._plain = None

    def _grown(self, characters: int, undo: Callable[[], object], *, exactly: bool = False) -> None:
        """Take a change that has just added at most one entry and so many characters, or undo and refuse it.

        The figures are kept as upper bounds, and taken exactly where those do not suffice.
        """
        self._plain = None
        self._entries += 1
        self._characters += characters
        try:
            if exactly or self._shares_nodes or self._over_limits():
                self._measure()
            if self._over_limits():
                raise SimulatorError("there is no room left in the file system")
        except SimulatorError:
            undo()
            raise

    def _measure(self) -> None:
        """Take the figures exactly; refused once that has been too much work for one conversation."""
        self._measured += self._entries
        if self._measured > MAX_MEASURED:
            raise SimulatorError("there is no room left in the file system")
        self._entries, self._characters, self._depth = file_tree.measure(self.root)

    def _over_limits(self) -> bool:
        return (
            self._entries > file_tree.MAX_ENTRIES
            or self._characters > file_tree.MAX_CHARACTERS
            or self._depth > file_tree.MAX_DEPTH
        )
