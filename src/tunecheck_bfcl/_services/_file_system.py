"""GorillaFileSystem: a small file system with a current directory, and 18 commands that work in it."""

import copy
from collections.abc import Mapping
from typing import ClassVar

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, tool
from tunecheck_bfcl._services._file_tree import (
    Directory,
    File,
    Node,
    Volume,
    descendants,
    node_text,
    pad,
    read_directory,
)

_LONGEST_NAME = 1_000
_UNITS = ("B", "KB", "MB", "GB", "TB")
_FORBIDDEN = frozenset('"%*/:<>?\\|')


class GorillaFileSystem(Simulator):
    """Configuration: `{"root": {name: {"type": "directory", "contents": {…}}}}`; without it the root is empty.

    State: `root`, the tree under the root's name (a dict is a directory, text a file), and `long_context`. The
    current directory is not part of it.
    """

    bounded: ClassVar[bool] = True

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """See `Simulator.load`; of several roots the first is taken, as BFCL's data need.

        Raises:
            DataError: the configured root is not a directory, or the tree is too large.
        """
        root = Directory("/")
        if "root" in config:
            roots = config["root"]
            if not isinstance(roots, dict) or not roots:
                raise DataError(
                    "initial_config.GorillaFileSystem.root must have exactly one key: the name of the root directory"
                )
            name = next(iter(roots))
            root = read_directory(name, roots[name], f"initial_config.GorillaFileSystem.root.{name}")
            if long_context is not None:
                pad(root, *_padding(long_context))
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
        if "/" in name:
            raise SimulatorError(f"cd: '{folder}' is a path; go one directory at a time")
        directory = volume.root if not name else volume.current if name == "." else volume.find(name)
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
        self._volume.add(Directory(self._free(dir_name, "mkdir"), here), here)

    @tool
    def touch(self, file_name: str) -> None:
        """Make an empty file in the directory you are in.

        Args:
            file_name: Name of the new file with its extension, not a path.
        """
        self._volume.add(File(self._free(file_name, "touch")), self._volume.current)

    @tool
    def echo(self, content: str, file_name: str | None = None) -> dict[str, str] | None:
        """Write text to a file of this directory in place of what it held, or just show it.

        Args:
            content: The text.
            file_name: Name of an existing file to write to; without it the text is shown.
        """
        if file_name in (None, "", [], {}):
            return {"terminal_output": content}
        self._volume.write(self._file(file_name, "echo"), copy.deepcopy(content))
        return None

    @tool
    def cat(self, file_name: str) -> dict[str, JSON]:
        """Show all that is in a file.

        Args:
            file_name: Name of a file in this directory, not a path.
        """
        return {"file_content": self._file(file_name, "cat").content}

    @tool
    def tail(self, file_name: str, lines: int = 10) -> dict[str, str]:
        """Show the end of a file.

        Args:
            file_name: Name of a file in this directory, not a path.
            lines: How many lines to show.
        """
        listed = self._content(file_name, "tail").splitlines()
        start = -len(listed) if lines > len(listed) else -lines  # a negative number skips lines from the start
        return {"last_lines": "\n".join(listed[start:])}

    @tool
    def wc(self, file_name: str, mode: str = "l") -> dict[str, int | str]:
        """Count what a file holds.

        Args:
            file_name: Name of a file in this directory, not a path.
            mode: "l" counts lines, "w" words, "c" characters.
        """
        if mode not in ("l", "w", "c"):
            raise SimulatorError(f"wc: there is no mode '{str(mode)[:1000]}'")
        text = self._content(file_name, "wc")
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
        return {"sorted_content": "\n".join(sorted(self._content(file_name, "sort").splitlines()))}

    @tool
    def grep(self, file_name: str, pattern: str) -> dict[str, list[str]]:
        """Show the lines of a file that contain a text.

        Args:
            file_name: Name of a file in this directory, not a path.
            pattern: The text to look for, taken literally.
        """
        return {"matching_lines": [line for line in self._content(file_name, "grep").splitlines() if pattern in line]}

    @tool
    def diff(self, file_name1: str, file_name2: str) -> dict[str, str]:
        """Show which lines differ between two files, line by line.

        Args:
            file_name1: Name of the first file, in this directory.
            file_name2: Name of the second file, in this directory.
        """
        first = self._volume.find(file_name1)
        second = self._volume.find(file_name2) if isinstance(first, File) else None
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
        below = descendants(self._volume.at(path), path.rstrip("/"))
        return {"matches": [place for place, entry in below if name is None or name in entry.name]}

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
        if directory.contents:
            raise SimulatorError(f"rmdir: '{dir_name}' is not empty")
        return self._removal_result(dir_name)

    @tool
    def cp(self, source: str, destination: str) -> dict[str, str]:
        """Copy a file or directory under a new name, or into a directory.

        Args:
            source: Name of what to copy, in this directory.
            destination: A new name, or the name of a directory here to copy into; not a path.
        """
        node = self._volume.entry(source, "cp")
        directory, name, place = self._target(node, source, destination, "cp")
        self._volume.copy(node, directory, name)
        return {"result": f"'{source}' copied to '{place}'"}

    @tool
    def mv(self, source: str, destination: str) -> dict[str, str]:
        """Move a file or directory into another directory, or give it a new name.

        Args:
            source: Name of what to move, in this directory.
            destination: A new name, or the name of a directory here to move into; not a path.
        """
        node = self._volume.entry(source, "mv")
        directory, name, place = self._target(node, source, destination, "mv")
        self._volume.move(source, node, directory, name)
        return {"result": f"'{source}' moved to '{place}'"}

    def _removal_result(self, name: str) -> dict[str, str]:
        """Remove an entry of the current directory and return the result text."""
        self._volume.remove(name)
        return {"result": f"'{name}' removed"}

    def _file(self, name: str, command: str) -> File:
        """Return a file of the current directory, or raise SimulatorError if there is none of that name."""
        entry = self._volume.entry(_allow_name(name, command), command)
        if isinstance(entry, Directory):
            raise SimulatorError(f"{command}: '{name}' is a directory")
        return entry

    def _content(self, name: str, command: str) -> str:
        """Return the text of a file in the current directory, or raise SimulatorError if it is not a text file."""
        entry = self._volume.find(name)
        if not isinstance(entry, File):
            raise SimulatorError(f"{command}: there is no file '{name}' here")
        return _text(entry)

    def _free(self, name: str, command: str) -> str:
        """Return the name unchanged, or raise SimulatorError if it is taken or not allowed."""
        if _allow_name(name, command) in self._volume.current.contents:
            raise SimulatorError(f"{command}: there is already something named '{name}'")
        return name

    def _target(self, node: Node, source: str, destination: str, command: str) -> tuple[Directory, str, str]:
        """Return the directory and name for a copied or moved node, and the place's path for the result text.

        Raises:
            SimulatorError: the destination is a path, an existing file, or a directory with such an entry, or its name
                is too long or no text.
        """
        there = self._volume.find(destination)
        if "/" in _check_length(destination):
            raise SimulatorError(f"{command}: the destination must be a name in this directory, not a path")
        if there is None:
            return self._volume.current, destination, destination
        if isinstance(there, File):
            raise SimulatorError(f"{command}: '{source}' to '{destination}': that file is not overwritten")
        place = f"{destination}/{node.name}"
        if node.name in there.contents:
            raise SimulatorError(f"{command}: '{source}' to '{place}': there is already something of that name")
        return there, node.name, place


def _padding(constants: Mapping[str, JSON]) -> tuple[str, list[str], list[str]]:
    """Return the text to append to files, the names of empty files to add, and the names of files not to change.

    Raises:
        DataError: a constant has another type.
    """
    text, names = constants["FILE_CONTENT_EXTENSION"], constants["POPULATE_FILE_EXTENSION"]
    unpadded = constants["FILES_TAIL_USED"]
    if not (isinstance(text, str) and isinstance(names, list) and isinstance(unpadded, list)):
        raise DataError("the constants for long context are invalid; get the data again: tunecheck bfcl get")
    return text, [str(name) for name in names], [str(name) for name in unpadded]


def _check_length(name: object) -> str:
    """Return the name, or raise SimulatorError if it is too long or not text."""
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        raise SimulatorError(f"a name must be text of at most {_LONGEST_NAME} characters")
    return name


def _allow_name(name: object, command: str) -> str:
    """Return the name, or raise SimulatorError if it has a forbidden character. `command` begins the message."""
    if not _FORBIDDEN.isdisjoint(_check_length(name)):
        raise SimulatorError(f"{command}: '{name}' holds a character that no name may have: \" % * / : < > ? \\ |")
    return str(name)


def _text(file: File) -> str:
    """Return the content of a file, or raise SimulatorError if it is not text."""
    if not isinstance(file.content, str):
        raise SimulatorError(f"the content of '{file.name}' is not text")
    return file.content
