"""The commands besides `evaluate` that start runs, and what a manifest keeps of their options so that one can go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Self

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON

if TYPE_CHECKING:
    from tunecheck.runs._store import Run

COMMANDS: Mapping[str, str] = {
    "bfcl_run": "bfcl run",
    "judge_calibrate": "judge calibrate",
    "memory_run": "memory run",
}
"""The commands, by the key of the manifest's `command` under which their options are kept."""


def command_of(recorded: JSON) -> str | None:
    """Which of these commands began a run, by its manifest's `command`; None: none of them."""
    keys = recorded.keys() if isinstance(recorded, dict) else ()
    return next((command for key, command in COMMANDS.items() if key in keys), None)


@dataclass(frozen=True)
class RecordedOptions:
    """Base of the options that a command's runs are started with, every one with a default that says "not given"."""

    recorded_as: ClassVar[str]
    """The key in `COMMANDS`."""

    @classmethod
    def of(cls, parameters: Mapping[str, object]) -> Self:
        """From a command's parameters."""
        return cls(**{field.name: parameters[field.name] for field in fields(cls)})

    @classmethod
    def recorded(cls, run: Run) -> Self:
        """Those that a run was started with.

        Raises:
            ConfigurationError: the run was started in another way.
        """
        command = run.manifest().get("command")
        kept = command.get(cls.recorded_as) if isinstance(command, dict) else None
        if not isinstance(kept, dict) or not kept.keys() <= {field.name for field in fields(cls)}:
            own, begun = COMMANDS[cls.recorded_as], command_of(command)
            how = f"with `tunecheck {begun} --resume {run.id}`" if begun not in (None, own) else "as it was begun"
            raise ConfigurationError(f"run {run.id} was not started by `tunecheck {own}`: finish it {how}")
        return cls(**kept)

    def given(self) -> dict[str, JSON]:
        """What is not left to its default."""
        return {key: value for key, value in asdict(self).items() if value is not None and value is not False}

    def command(self) -> dict[str, JSON]:
        """What the manifest keeps."""
        return {self.recorded_as: self.given()}
