"""GorillaFileSystem: a small file system with a current directory, and 18 commands that work in it.

BFCL's data depend on how its file system copies and moves directories, so this tree behaves in the same way. A moved
directory still shares its dict of entries with the old node. A copied directory has its own dict, but the same nodes in
it. In both cases, these nodes keep their parents. So a node may be in several places of a tree, but never in itself.

Example: the root "workspace" has the directory a, and a has the directory b. The commands run in the root.

  mv(a, x)   x shares its entries with the old node of a. The node of b is the same and keeps the parent a:
             `pwd` in it still shows /workspace/a/b, and `cd ..` leads to the old node of a
  cp(a, y)   y has its own dict with the same node of b. A file made in a/b is in y/b, too;
             a file made in a is not in y

Shared nodes count in every place where they are. `Volume` therefore measures the tree after each change, and undoes a
change that exceeds the limits or puts a directory into itself.
"""

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, TypeAlias, cast

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, tool
from tunecheck_bfcl._services._figures import refuse_if

MAX_ENTRIES = 20_000
"""The most files and directories in a tree. BFCL's trees with long context have fewer than 1,000."""

MAX_CHARACTERS = 20_000_000
"""The most characters in all files and names. A node in several places counts several times."""

MAX_DEPTH = 100
"""The most levels of nested directories."""

MAX_MEASURED = 3_000_000
"""Entries that are gone through in one conversation to see whether there is room; some seconds of work."""


@dataclass(slots=True, eq=False)
class File:
    name: str
    content: JSON = ""


@dataclass(slots=True, eq=False, repr=False)
class Directory:
    """A directory and its entries by name. `parent` is the directory in which it was made, None for the root."""

    name: str
    parent: "Directory | None" = None
    contents: "dict[str, Node]" = field(default_factory=dict)


Node: TypeAlias = File | Directory


def read_directory(
    name: str, config: JSON, config_path: str, parent: Directory | None = None, *, depth: int = 0
) -> Directory:
    """Read a directory and its entries from the configuration `{"type": "directory", "contents": {name: {…}, …}}`.

    `config_path` is the place of `config` in the row, for errors. `depth` is the number of directories around it.

    Raises:
        DataError: the configuration has another form, or is nested too deeply.
    """
    contents = config.get("contents") if isinstance(config, dict) else None
    if not isinstance(contents, dict):
        raise DataError(f"{config_path} needs 'contents', an object with the directory's entries")

    if depth > MAX_DEPTH:
        raise DataError(f"{config_path[:200]}…: directories may be nested at most {MAX_DEPTH} levels deep")

    directory = Directory(name, parent)
    for entry, settings in contents.items():
        directory.contents[entry] = _read_node(entry, settings, f"{config_path}.{entry}", directory, depth + 1)
    return directory


def _read_node(name: str, config: JSON, config_path: str, parent: Directory, depth: int) -> Node:
    """Read a file or directory from its configuration. Raise DataError if the configuration has another form."""
    kind = config.get("type") if isinstance(config, dict) else None
    if kind == "directory":
        return read_directory(name, config, config_path, parent, depth=depth)
    if kind != "file" or not isinstance(config, dict):
        raise DataError(f"{config_path} needs a 'type': 'file' or 'directory'")

    if "content" not in config:
        raise DataError(f"{config_path} is a file without 'content'; add its text")
    return File(name, config["content"])


Size: TypeAlias = tuple[int, int, int]
"""The number of entries, the number of characters, and the depth of a tree. Shared nodes count in every place."""


def _size(node: Directory, depth: int, known: dict[int, Size | None]) -> Size:
    """Return the size of the tree below a directory.

    `known` has the results for entries that are shared by several directories, and None while they are being measured:
    a second visit then means that a directory contains itself.

    Raises:
        SimulatorError: a directory contains itself, or is nested too deeply.
    """
    # Not a nested function: it would form a reference cycle, which keeps `known` until a garbage collection.
    if id(node.contents) in known:
        return known[id(node.contents)] or _endless()

    if depth > 2 * MAX_DEPTH:
        _endless()

    known[id(node.contents)] = None
    entries, characters, height = len(node.contents), sum(map(len, node.contents)), 0
    for entry in node.contents.values():
        if isinstance(entry, Directory):
            inner_entries, inner_characters, inner_height = _size(entry, depth + 1, known)
            entries += inner_entries
            characters += inner_characters
            height = max(height, inner_height)
        else:
            characters += len(entry.content if isinstance(entry.content, str) else str(entry.content))

    known[id(node.contents)] = size = (entries, characters, height + 1)
    return size


def _endless() -> NoReturn:
    """Refuse a tree that contains itself or is nested too deeply."""
    raise SimulatorError(f"directories would be nested without end, or more than {MAX_DEPTH} levels deep")


def descendants(directory: Directory, prefix: str) -> Iterator[tuple[str, Node]]:
    """Yield all entries below a directory with their paths after `prefix`, each directory before its contents."""
    for name, entry in directory.contents.items():
        path = f"{prefix}/{name}"
        yield path, entry
        if isinstance(entry, Directory):
            yield from descendants(entry, path)


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
    """Return a node in the text form of BFCL's logs.

    A directory a in the root with a file b is `<Directory: a, Parent: /, Contents: {'b': <<File: b, Content: x>>}>`.
    """
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
        if _is_over_limits(*_size(root, 0, {})):
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
        """Return an entry of the current directory, or raise SimulatorError without one; `command` begins the text."""
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
        """Put a node into a directory that has no other entry of its name, or raise SimulatorError without room."""
        directory.contents[node.name] = node
        self._check_change(lambda: directory.contents.pop(node.name))

    def copy(self, node: Node, directory: Directory, name: str) -> None:
        """Put a copy of a node into a directory under a name.

        A copied file has the same content. A copied directory has the same entries, which are not copied.

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
        entries, old_entries = self.current.contents, dict(self.current.contents)
        del entries[name]

        moved = (
            File(new_name, node.content) if isinstance(node, File) else Directory(new_name, directory, node.contents)
        )

        try:
            self.add(moved, directory)
        except SimulatorError:
            # Filled again as a whole, because an entry that is put back alone would come last.
            entries.clear()
            entries.update(old_entries)
            raise

    def write(self, file: File, content: JSON) -> None:
        """Replace the content of a file, or raise SimulatorError if there is no room for it."""
        old_content, file.content = file.content, content
        self._check_change(lambda: setattr(file, "content", old_content))

    def remove(self, name: str) -> None:
        """Remove an entry of the current directory."""
        del self.current.contents[name]
        self._plain = None

    def _check_change(self, undo: Callable[[], object]) -> None:
        """Check the tree after a change. If it is too large or endless, call `undo` and raise SimulatorError."""
        self._plain = None
        try:
            refuse_if(not self._has_room(), "there is no room left in the file system")
        except SimulatorError:
            undo()
            raise

    def _has_room(self) -> bool:
        """Return True if the tree is within its limits.

        Once a conversation has measured MAX_MEASURED entries, the answer is always False, which bounds the time.
        """
        if self._measured > MAX_MEASURED:
            return False
        entries, characters, depth = _size(self.root, 0, {})
        self._measured += entries
        return self._measured <= MAX_MEASURED and not _is_over_limits(entries, characters, depth)


def _is_over_limits(entries: int, characters: int, depth: int) -> bool:
    return entries > MAX_ENTRIES or characters > MAX_CHARACTERS or depth > MAX_DEPTH


# -- the commands

_LONGEST_NAME = 1_000  # characters
_UNITS = ("B", "KB", "MB", "GB", "TB")
_FORBIDDEN = frozenset('"%*/:<>?\\|')


class GorillaFileSystem(Simulator):
    """Configuration: `{"root": {name: {"type": "directory", "contents": {…}}}}`; without it the root is empty.

    State: `root`, the tree under the root's name (a dict is a directory, text a file), and `long_context`. The
    current directory is not part of it.
    """

    bounded: ClassVar[bool] = True

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Start from the tree of a configuration, or an empty one.

        Of several roots the first is taken, as BFCL's data need. With long context, files become longer and empty files
        are added.

        Raises:
            DataError: the configured root is not a directory, or the tree is too large.
        """
        root = Directory("/")
        if "root" in config:
            roots = config["root"]
            if not isinstance(roots, dict) or not roots:
                raise DataError(
                    "initial_config.GorillaFileSystem.root must be an object that maps the root's name to a directory"
                )

            name = next(iter(roots))
            root = read_directory(name, roots[name], f"initial_config.GorillaFileSystem.root.{name}")
            if long_context is not None:
                constants = cast("Mapping[str, Any]", long_context)
                text, names = constants["FILE_CONTENT_EXTENSION"], constants["POPULATE_FILE_EXTENSION"]
                pad(root, text, names, constants["FILES_TAIL_USED"])

        self._volume = Volume(root)
        self._long_context = long_context is not None

    def state(self) -> dict[str, object]:
        return {"long_context": self._long_context, "root": self._volume.plain()}

    def state_text(self) -> dict[str, JSON]:
        return {"long_context": self._long_context, "root": node_text(self._volume.root)}

    @tool
    def pwd(self) -> dict[str, str]:
        """Tell the path of the directory you are in."""
        names: list[str] = []
        directory: Directory | None = self._volume.current
        while directory is not None:
            names.append(directory.name)
            directory = directory.parent
        return {"current_working_directory": "/" + "/".join(reversed(names))}

    @tool
    def ls(self, a: bool = False) -> dict[str, list[str]]:
        """List what is in the directory you are in.

        Args:
            a: Whether to list names that begin with a dot as well.
        """
        return {"current_directory_content": [name for name in self._volume.current.contents if a or name[:1] != "."]}

    @tool
    def cd(self, folder: str) -> dict[str, str]:
        """Go to another directory: one inside this one, ".." for the one above, or "/" for the root.

        Args:
            folder: Name of a directory here; no path of several steps.
        """
        name, volume = folder.rstrip("/"), self._volume
        if name == "..":
            if volume.current.parent is None:
                raise SimulatorError("cd: this is the root, there is nothing above it")
            volume.current = volume.current.parent
            return {}  # BFCL's file system returns no text here, either

        refuse_if("/" in name, f"cd: '{folder}' is a path; go one directory at a time")

        # "/" without its trailing slash is an empty name.
        places: dict[str, Node] = {"": volume.root, ".": volume.current}
        directory = places.get(name) or volume.find(name)
        if not isinstance(directory, Directory):
            raise SimulatorError(f"cd: there is no directory '{name}' here")

        volume.current = directory
        return {"current_working_directory": volume.current.name}

    @tool
    def mkdir(self, dir_name: str) -> None:
        """Make a directory inside the directory you are in.

        Args:
            dir_name: Name of the new directory, not a path.
        """
        here = self._volume.current
        self._volume.add(Directory(self._check_unused(dir_name, "mkdir"), here), here)

    @tool
    def touch(self, file_name: str) -> None:
        """Make an empty file in the directory you are in.

        Args:
            file_name: Name of the new file with its extension, not a path.
        """
        self._volume.add(File(self._check_unused(file_name, "touch")), self._volume.current)

    @tool
    def echo(self, content: str, file_name: str | None = None) -> dict[str, str] | None:
        """Write text to a file of this directory in place of what it held, or just show it.

        Args:
            content: The text.
            file_name: Name of an existing file to write to; without it the text is shown.
        """
        if file_name in (None, "", [], {}):  # as in BFCL, any empty value means no file
            return {"terminal_output": content}
        self._volume.write(self._named_file(file_name, "echo"), copy.deepcopy(content))
        return None

    @tool
    def cat(self, file_name: str) -> dict[str, JSON]:
        """Show all that is in a file.

        Args:
            file_name: Name of a file in this directory, not a path.
        """
        return {"file_content": self._named_file(file_name, "cat").content}

    @tool
    def tail(self, file_name: str, lines: int = 10) -> dict[str, str]:
        """Show the end of a file.

        Args:
            file_name: Name of a file in this directory, not a path.
            lines: How many lines to show.
        """
        listed = _text(self._file(file_name, "tail")).splitlines()
        start = -len(listed) if lines > len(listed) else -lines  # a negative `lines` skips that many lines at the start
        return {"last_lines": "\n".join(listed[start:])}

    @tool
    def wc(self, file_name: str, mode: str = "l") -> dict[str, int | str]:
        """Count what a file holds.

        Args:
            file_name: Name of a file in this directory, not a path.
            mode: "l" counts lines, "w" words, "c" characters.
        """
        refuse_if(mode not in ("l", "w", "c"), f"wc: there is no mode '{str(mode)[:1000]}'")

        text = _text(self._file(file_name, "wc"))
        if mode == "c":
            return {"count": len(text), "type": "characters"}
        if mode == "w":
            return {"count": len(text.split()), "type": "words"}
        return {"count": len(text.splitlines()), "type": "lines"}

    @tool
    def sort(self, file_name: str) -> dict[str, str]:
        """Show the lines of a file in order; the file stays as it is.

        Args:
            file_name: Name of a file in this directory, not a path.
        """
        return {"sorted_content": "\n".join(sorted(_text(self._file(file_name, "sort")).splitlines()))}

    @tool
    def grep(self, file_name: str, pattern: str) -> dict[str, list[str]]:
        """Show the lines of a file that contain a text.

        Args:
            file_name: Name of a file in this directory, not a path.
            pattern: The text to look for, taken literally.
        """
        lines = _text(self._file(file_name, "grep")).splitlines()
        return {"matching_lines": [line for line in lines if pattern in line]}

    @tool
    def diff(self, file_name1: str, file_name2: str) -> dict[str, str]:
        """Show which lines differ between two files, line by line.

        Args:
            file_name1: Name of the first file, in this directory.
            file_name2: Name of the second file, in this directory.
        """
        first, second = self._volume.find(file_name1), self._volume.find(file_name2)
        if not isinstance(first, File) or not isinstance(second, File):
            raise SimulatorError(f"diff: there is no file '{file_name1}' or no file '{file_name2}' here")

        # As in the leaderboard's service, lines beyond the end of the shorter file are not compared.
        pairs = zip(_text(first).splitlines(), _text(second).splitlines(), strict=False)
        return {"diff_lines": "\n".join(f"- {one}\n+ {other}" for one, other in pairs if one != other)}

    @tool
    def du(self, human_readable: bool = False) -> dict[str, str]:
        """Tell how much room this directory and all that is in it take.

        Args:
            human_readable: Whether to give the size in KB, MB and so on instead of bytes.
        """
        nodes = [entry for _, entry in descendants(self._volume.current, "")]
        size = sum(len(_text(entry).encode()) for entry in nodes if isinstance(entry, File))

        if not human_readable:
            return {"disk_usage": f"{size} bytes"}

        readable, unit = float(size), 0
        while readable >= 1024 and unit < len(_UNITS) - 1:
            readable, unit = readable / 1024, unit + 1
        return {"disk_usage": f"{readable:.2f} {_UNITS[unit]}"}

    @tool
    def find(self, path: str = ".", name: str | None = None) -> dict[str, list[str]]:
        """Find files and directories below a directory, at any depth, by a part of their name.

        Args:
            path: Directory to start from: a path from here, or from the root where it begins with "/".
            name: Text that the name must contain; without it everything is found.
        """
        matches: list[str] = []
        characters_left = MAX_CHARACTERS  # the paths of nested directories may be much longer than all names
        for entry_path, entry in descendants(self._volume.at(path), path.rstrip("/")):
            characters_left -= len(entry_path)
            refuse_if(characters_left < 0, "there is too much below this directory to go through")
            if name is None or name in entry.name:
                matches.append(entry_path)
        return {"matches": matches}

    @tool
    def rm(self, file_name: str) -> dict[str, str]:
        """Remove a file, or a directory with all that is in it.

        Args:
            file_name: Name of a file or directory in this directory.
        """
        self._volume.entry(file_name, "rm")
        return self._removal_result(file_name)

    @tool
    def rmdir(self, dir_name: str) -> dict[str, str]:
        """Remove a directory that is empty.

        Args:
            dir_name: Name of a directory in this directory.
        """
        directory = self._volume.entry(dir_name, "rmdir")
        if not isinstance(directory, Directory):
            raise SimulatorError(f"rmdir: '{dir_name}' is not a directory")
        refuse_if(directory.contents, f"rmdir: '{dir_name}' is not empty")
        return self._removal_result(dir_name)

    @tool
    def cp(self, source: str, destination: str) -> dict[str, str]:
        """Copy a file or directory under a new name, or into a directory.

        Args:
            source: Name of what to copy, in this directory.
            destination: A new name, or the name of a directory here to copy into; not a path.
        """
        node = self._volume.entry(source, "cp")
        directory, name, new_path = self._copy_place(node, source, destination, "cp")
        self._volume.copy(node, directory, name)
        return {"result": f"'{source}' copied to '{new_path}'"}

    @tool
    def mv(self, source: str, destination: str) -> dict[str, str]:
        """Move a file or directory into another directory, or give it a new name.

        Args:
            source: Name of what to move, in this directory.
            destination: A new name, or the name of a directory here to move into; not a path.
        """
        node = self._volume.entry(source, "mv")
        directory, name, new_path = self._copy_place(node, source, destination, "mv")
        self._volume.move(source, node, directory, name)
        return {"result": f"'{source}' moved to '{new_path}'"}

    def _removal_result(self, name: str) -> dict[str, str]:
        """Remove an entry of the current directory and return the result text."""
        self._volume.remove(name)
        return {"result": f"'{name}' removed"}

    def _named_file(self, name: str, command: str) -> File:
        """Return a file of the current directory; refuse forbidden names and directories with their own errors."""
        if isinstance(self._volume.entry(_check_characters(name, command), command), Directory):
            raise SimulatorError(f"{command}: '{name}' is a directory")
        return self._file(name, command)

    def _file(self, name: str, command: str) -> File:
        """Return a file of the current directory, or raise SimulatorError without one; `command` begins the text."""
        entry = self._volume.find(name)
        if not isinstance(entry, File):
            raise SimulatorError(f"{command}: there is no file '{name}' here")
        return entry

    def _check_unused(self, name: str, command: str) -> str:
        """Return the name unchanged, or raise SimulatorError if it is taken or forbidden; `command` begins the text."""
        is_taken = _check_characters(name, command) in self._volume.current.contents
        refuse_if(is_taken, f"{command}: there is already something named '{name}'")
        return name

    def _copy_place(self, node: Node, source: str, destination: str, command: str) -> tuple[Directory, str, str]:
        """Return the directory and the name for a copied or moved node, and its new path for the result text.

        `command` begins the texts of errors.

        Raises:
            SimulatorError: the destination is no text, too long, a path or an existing file, or it is a directory that
                has an entry with the node's name.
        """
        existing = self._volume.find(destination)
        if "/" in _check_length(destination):
            raise SimulatorError(f"{command}: the destination must be a name in this directory, not a path")
        if existing is None:
            return self._volume.current, destination, destination

        if isinstance(existing, File):
            raise SimulatorError(f"{command}: '{source}' to '{destination}': an existing file is not overwritten")

        new_path = f"{destination}/{node.name}"
        if node.name in existing.contents:
            raise SimulatorError(f"{command}: '{source}' to '{new_path}': there is already something of that name")

        return existing, node.name, new_path


def _check_length(name: object) -> str:
    """Return the name, or raise SimulatorError if it is too long or not text."""
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        raise SimulatorError(f"a name must be text of at most {_LONGEST_NAME} characters")
    return name


def _check_characters(name: object, command: str) -> str:
    """Return the name, or raise SimulatorError if it has a forbidden character. `command` begins the message."""
    if not _FORBIDDEN.isdisjoint(_check_length(name)):
        raise SimulatorError(f"{command}: '{name}' holds a character that no name may have: \" % * / : < > ? \\ |")
    return str(name)


def _text(file: File) -> str:
    """Return the content of a file, or raise SimulatorError if it is not text."""
    if not isinstance(file.content, str):
        raise SimulatorError(f"the content of '{file.name}' is not text")
    return file.content
