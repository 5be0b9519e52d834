"""GorillaFileSystem: a small file system with a current directory, and 18 commands that work in it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from tunecheck.errors import DataError
from tunecheck.jsontext import JSON
from tunecheck.simulators import file_tree, text_commands
from tunecheck.simulators.base import Simulator, SimulatorError, tool
from tunecheck.simulators.file_tree import Directory, File, Node
from tunecheck.simulators.file_volume import Volume, text

if TYPE_CHECKING:
    from tunecheck.simulators.long_context import LongContext

__all__ = ["GorillaFileSystem"]

_LONGEST_NAME = 1_000
_FORBIDDEN = frozenset('"%*/:<>?\\|')


class GorillaFileSystem(Simulator):
    """Configuration: `{"root": {name: {"type": "directory", "contents": {…}}}}`; without it the root is empty.

    State: `root`, the tree under the root's name (a dict is a directory, text a file), and `long_context`. The
    current directory is no part of it.
    """

    bounded: ClassVar[bool] = True

    def load(self, config: Mapping[str, JSON], *, long_context: LongContext | None = None) -> None:
        """See `Simulator.load`; of several roots the first is taken, as BFCL's data need."""
        root = Directory("/")
        if "root" in config:
            root = _root(config["root"])
            if long_context is not None:
                file_tree.pad(root, *_padding(long_context))
        self._volume = Volume(root)
        self._long_context = long_context is not None

    def state(self) -> dict[str, object]:
        """See `Simulator.state`."""
        return {"long_context": self._long_context, "root": self._volume.plain()}

    def state_text(self) -> dict[str, JSON]:
        """The tree in the text form of BFCL's logs."""
        return {"long_context": self._long_context, "root": file_tree.shown(self._volume.root)}

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
        name, volume = text(folder, "folder").rstrip("/"), self._volume
        if name == "..":
            if volume.current.parent is None:
                raise SimulatorError("cd: this is the root, there is nothing above it")
            volume.current = volume.current.parent
            return {}  # so says BFCL's file system as well
        if "/" in name:
            raise SimulatorError("cd: only one directory at a time, no path")
        volume.current = volume.root if not name else volume.current if name == "." else volume.directory(name, "cd")
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
        self._volume.write(self._volume.file(_allowed(file_name, "echo"), "echo"), copy.deepcopy(content))
        return None

    @tool
    def cat(self, file_name: str) -> dict[str, JSON]:
        """Show all that is in a file.

        Args:
            file_name: Name of a file in this directory, not a path.
        """
        return {"file_content": self._volume.file(_allowed(file_name, "cat"), "cat").content}

    @tool
    def tail(self, file_name: str, lines: int = 10) -> dict[str, str]:
        """Show the end of a file.

        Args:
            file_name: Name of a file in this directory, not a path.
            lines: How many lines to show.
        """
        return {"last_lines": text_commands.last_lines(self._content(file_name, "tail"), lines)}

    @tool
    def wc(self, file_name: str, mode: str = "l") -> dict[str, int | str]:
        """Count what a file holds.

        Args:
            file_name: Name of a file in this directory, not a path.
            mode: "l" counts lines, "w" words, "c" characters.
        """
        return text_commands.count(self._content(file_name, "wc"), mode)

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
        lines = self._content(file_name, "grep").splitlines()
        return {"matching_lines": [line for line in lines if pattern in line]}

    @tool
    def diff(self, file_name1: str, file_name2: str) -> dict[str, str]:
        """Show which lines differ between two files, line by line.

        Args:
            file_name1: Name of the first file, in this directory.
            file_name2: Name of the second file, in this directory.
        """
        first, second = self._content(file_name1, "diff"), self._content(file_name2, "diff")
        return {"diff_lines": text_commands.differing_lines(first, second)}

    @tool
    def du(self, human_readable: bool = False) -> dict[str, str]:
        """Tell how much room this directory and all that is in it take.

        Args:
            human_readable: Whether to give the size in KB, MB and so on instead of bytes.
        """
        nodes = [entry for _, entry in file_tree.descendants(self._volume.current, "")]
        size = sum(len(_encoded(entry.content)) for entry in nodes if isinstance(entry, File))
        return {"disk_usage": text_commands.readable_size(size) if human_readable else f"{size} bytes"}

    @tool
    def find(self, path: str = ".", name: str | None = None) -> dict[str, list[str]]:
        """Find files and directories below a directory, at any depth, by a part of their name.

        Args:
            path: Directory to start from: a path from here, or from the root where it begins with "/".
            name: Text that the name must contain; without it everything is found.
        """
        below = file_tree.descendants(self._volume.at(text(path, "path")), path.rstrip("/"))
        return {"matches": [found for found, entry in below if name is None or name in entry.name]}

    @tool
    def rm(self, file_name: str) -> dict[str, str]:
        """Remove a file, or a directory with all that is in it.

        Args:
            file_name: Name of a file or directory in this directory.
        """
        self._volume.entry(file_name, "rm")
        return self._removed(file_name)

    @tool
    def rmdir(self, dir_name: str) -> dict[str, str]:
        """Remove a directory that is empty.

        Args:
            dir_name: Name of a directory in this directory.
        """
        if self._volume.directory(dir_name, "rmdir").contents:
            raise SimulatorError(f"rmdir: {dir_name!r} is not empty")
        return self._removed(dir_name)

    @tool
    def cp(self, source: str, destination: str) -> dict[str, str]:
        """Copy a file or directory under a new name, or into a directory.

        Args:
            source: Name of what to copy, in this directory.
            destination: A new name, or the name of a directory here to copy into; not a path.
        """
        node = self._volume.entry(source, "cp")
        directory, name, place = self._target(node, destination, "cp")
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
        directory, name, place = self._target(node, destination, "mv")
        self._volume.move(source, node, directory, name)
        return {"result": f"'{source}' moved to '{place}'"}

    def _removed(self, name: str) -> dict[str, str]:
        self._volume.remove(name)
        return {"result": f"'{name}' removed"}

    def _content(self, name: str, command: str) -> str:
        return text(self._volume.file(name, command).content, f"what is in {name!r}")

    def _free(self, name: str, command: str) -> str:
        if _allowed(name, command) in self._volume.current.contents:
            raise SimulatorError(f"{command}: there is already something named {name!r}")
        return name

    def _target(self, node: Node, destination: str, command: str) -> tuple[Directory, str, str]:
        """The directory that a copied or moved node goes to, its name there, and how a result names the place."""
        if "/" in _short(destination):
            raise SimulatorError(f"{command}: the destination must be a name in this directory, not a path")
        there = self._volume.find(destination)
        if there is None:
            return self._volume.current, destination, destination
        if isinstance(there, File):
            raise SimulatorError(f"{command}: {destination!r} is a file and is not written over")
        if node.name in there.contents:
            raise SimulatorError(f"{command}: {destination!r} already holds something named {node.name!r}")
        return there, node.name, f"{destination}/{node.name}"


def _root(config: JSON) -> Directory:
    if not isinstance(config, dict) or not config:
        raise DataError("initial_config.GorillaFileSystem.root needs one entry: the root directory under its name")
    name = next(iter(config))
    return file_tree.read_directory(name, config[name], f"initial_config.GorillaFileSystem.root.{name}")


def _padding(constants: Mapping[str, JSON]) -> tuple[str, list[str], list[str]]:
    text, names = constants["FILE_CONTENT_EXTENSION"], constants["POPULATE_FILE_EXTENSION"]
    unpadded = constants["FILES_TAIL_USED"]
    if not (isinstance(text, str) and isinstance(names, list) and isinstance(unpadded, list)):
        raise DataError("the constants for long context are not BFCL's: get the data again")
    return text, [str(name) for name in names], [str(name) for name in unpadded]


def _short(name: object) -> str:
    if len(text(name, "a name")) > _LONGEST_NAME:
        raise SimulatorError(f"a name has at most {_LONGEST_NAME} characters")
    return str(name)


def _allowed(name: object, command: str) -> str:
    if not _FORBIDDEN.isdisjoint(_short(name)):
        raise SimulatorError(f"{command}: names must not contain any of {' '.join(sorted(_FORBIDDEN))}")
    return str(name)


def _encoded(content: JSON) -> bytes:
    return text(content, "what is in a file").encode()
