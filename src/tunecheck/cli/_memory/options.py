"""The options of `tunecheck memory run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.cli._options import RUNNING, flag, option
from tunecheck.cli._shared_options import ModelOptions, ResumableOptions

_TESTING, _TEXTS = "What is tested, and how", "Texts and definitions"

UNFINISHED = "the unfinished run of these options"
"""What `--resume` without a run stands for; no run has blanks in its id."""

_INCIDENTAL = frozenset({"name", "concurrency", "max_cost", "prices", "regenerate", "reuse"})
"""Options in which two runs of the same configuration may differ."""


@dataclass(frozen=True, kw_only=True)
class MemoryRunOptions(ModelOptions, ResumableOptions):
    """The options of `memory run`."""

    command: ClassVar[str] = "memory run"
    anew: ClassVar[str] = "with --fresh"
    fixed: ClassVar[bool] = True

    config: str | None = option(
        "The benchmark's configuration: the GoodAI benchmark's files as published, or one of your own.",
        "CONFIG.yml",
        _TESTING,
        flags=("--config", "-c"),
    )
    endpoint: str | None = option(
        "The agent: a definition, or the name of one in endpoints/; kind memory_agent has a memory of its own.",
        "FILE",
        _TESTING,
    )
    max_prompt_size: int | None = option(
        "Send the agent at most N tokens of the conversation, the oldest exchanges left out.", "N", _TESTING, least=1
    )
    isolated: bool = flag(
        "Each test in a conversation of its own: nothing in between, and time passes at once.", _TESTING
    )
    clock: str | None = option(
        "virtual: a message takes a second, waits none (default); mirrored: the agent is told when time passes; "
        "real: waits are waited for.",
        "CLOCK",
        _TESTING,
    )
    seed: int | None = option(
        "Of definitions and filler; by default the configuration's, and 0.", "N", _TESTING, least=0
    )
    repeat: int | None = option(
        "Have the conversation K times, side by side: how reliably is each test passed?", "K", _TESTING, least=1
    )
    regenerate: bool = flag("Make the definitions anew, though they are there.", _TEXTS)
    reuse: bool = flag(
        "Take the definitions that are there as they are, whatever they were made of. By default they are taken "
        "if they were made of this configuration.",
        _TEXTS,
    )
    definitions: str | None = option(
        "Where the definitions are kept; by default datasets/memory/<run name>/definitions.", "DIR", _TEXTS
    )
    filler: str | None = option(
        "Questions and answers to fill the time with; by default a small pool that ships.", "FILE", _TEXTS
    )
    wording: str | None = option("What is said besides the tests' own texts.", "FILE", _TEXTS)
    texts: str | None = option("Books for chapter break, which is left out without them.", "PATH", _TEXTS)
    generator: str | None = option(
        "The model that writes what some kinds of tests are made of: a definition, or the name of one.", "FILE", _TEXTS
    )
    tokenizer: str | None = option("What tokens are counted with; by default cl100k_base.", "NAME", RUNNING)
    resume: str | None = option(
        "Go on with a run where it stopped, with the options it was started with. RUN: its id, the beginning of "
        "it, its folder, or last. Without RUN: the unfinished run of these options, or a new one if there is none.",
        "[RUN]",
        RUNNING,
        bare=UNFINISHED,
        recorded=False,
    )
    fresh: bool = flag(
        "Begin anew, and do not say that a run of this configuration is unfinished. Without --resume a run is "
        "always a new one, and nothing is ever deleted.",
        RUNNING,
        recorded=False,
    )

    def of_the_same(self) -> dict[str, JSON]:
        """What makes two runs ones of the same configuration."""
        return {name: value for name, value in self.recorded().items() if name not in _INCIDENTAL}
