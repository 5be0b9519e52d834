"""The folder of files that the stages leave: which of them stand, and which have to be made anew.

A stage whose input is unchanged is not made again. A file that somebody edited is taken as it is, and what follows
from it is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from tunecheck import ConfigurationError
from tunecheck.plugins import (
    JSON,
    check_version,
    content_hash,
    dumps_line,
    loads,
    open_regular,
    read_as,
    read_fitting,
    read_object,
    read_yaml,
    sha256_of,
    told_as,
    write_file,
)
from tunecheck.runs import dumps_readably
from tunecheck_authoring._author.files import AuthorFile, StageRecord

RECORD = "author.json"

T = TypeVar("T", bound=msgspec.Struct)


class Workbench:
    """The stages' files of one data set.

    Args:
        folder: where they are; it is made.
        name: the data set's.

    `notes` says of each file what became of it; `input` is the hash of what the last file holds.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.notes: dict[str, str] = {}
        self.input = content_hash(name)
        with told_as(ConfigurationError, folder, "cannot be made"):
            folder.mkdir(parents=True, exist_ok=True)
        known = folder / RECORD
        self._record = AuthorFile(name=name)
        if known.is_file():
            self._record = read_fitting(read_object(known), AuthorFile, str(known))

    def document(
        self, file: str, kind: type[T], inputs: JSON, make: Callable[[], T], merge: Callable[[T, T], T] | None = None
    ) -> T:
        """The content of a YAML file, made if it does not stand; `merge` keeps of the old what the new is to have."""
        path = self.folder / file

        def read() -> T:
            document = read_yaml(path)
            if isinstance(document.value, dict):
                check_version(document.value, path)
            return read_as(document.value, kind, document.where)

        if self._stands(file, inputs, keeps_edits=merge is None):
            return read()
        old = read() if merge is not None and path.is_file() else None
        made = make()
        content = made if old is None or merge is None else merge(old, made)
        self._write(file, _yaml_text(content))
        return content

    def lines(self, file: str, kind: type[T], inputs: JSON, make: Callable[[], Sequence[T]]) -> list[T]:
        """The lines of a JSON Lines file, made if it does not stand."""
        if self._stands(file, inputs):
            return [*_lines(self.folder / file, kind)]
        content = [*make()]
        self._write(file, b"".join(dumps_line(msgspec.to_builtins(line)) for line in content))
        return content

    def _stands(self, file: str, inputs: JSON, *, keeps_edits: bool = True) -> bool:
        """Whether the file is to be taken as it is; what follows from it depends on what it holds."""
        path, known = self.folder / file, self._record.stages.get(file)
        needed = content_hash([self.input, inputs])
        if not path.is_file():
            self.notes[file] = "made"
        else:
            edited = known is None or known.made != _hash_of(path)
            if (known is not None and known.input == needed) or (edited and keeps_edits):
                self.notes[file] = "edited, and kept" if edited else "unchanged"
                self.input = content_hash([needed, _hash_of(path)])
                return True
            self.notes[file] = "made again"
        self.input = needed
        return False

    def _write(self, file: str, content: bytes) -> None:
        path = self.folder / file
        with told_as(ConfigurationError, path, "cannot be written"):
            write_file(path, content)
            made = sha256_of(path)
            self._record.stages[file] = StageRecord(self.input, made)
            write_file(self.folder / RECORD, dumps_readably(self._record))
        self.input = content_hash([self.input, made])


def _hash_of(path: Path) -> str:
    with told_as(ConfigurationError, path):
        return sha256_of(path)


def _lines(path: Path, kind: type[T]) -> Iterator[T]:
    with told_as(ConfigurationError, path), open_regular(path) as file:
        for number, line in enumerate(file, 1):
            where = f"{path}, line {number}"
            try:
                value = loads(line) if line.strip() else None
            except ValueError as error:
                raise ConfigurationError(f"{where}: no JSON: {error}") from None
            if line.strip():
                yield read_as(value, kind, where)


def _yaml_text(content: msgspec.Struct) -> bytes:
    import yaml

    plain = msgspec.to_builtins(content)
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120).encode()
