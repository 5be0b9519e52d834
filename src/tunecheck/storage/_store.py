"""What every storage can do."""

from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True)
class Stored:
    """What stands under a name: its content, and the version by which a later one is told from it."""

    content: bytes
    version: str


class Store(Protocol):
    """Objects by name, such as `lease/3`; each call is whole or did nothing, also when many machines call at once.

    Every method raises RunError where the storage cannot be reached or refuses; the text says why, and no secret.
    """

    @property
    def place(self) -> str:
        """Where it is, for people."""

    def create(self, name: str, content: bytes) -> bool:
        """Write what is not there yet; whether this content stands there now. Of several that try, one succeeds."""

    def put(self, name: str, content: bytes | BinaryIO) -> None:
        """Write, whatever is there; of a file only a few MB are in memory at once."""

    def read(self, name: str) -> Stored | None:
        """What stands there; None where nothing does."""

    def list(self, prefix: str) -> dict[str, str]:
        """The names that begin so, in order, each with its version."""

    def delete(self, name: str) -> None:
        """Remove it, if it is there."""
