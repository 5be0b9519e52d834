"""The options of `tunecheck memory run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tunecheck._json import JSON
from tunecheck.cli._options import RUNNING, Option
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
    anew: ClassVar[str] = "--fresh"
    fixed: ClassVar[bool] = True

    config: Annotated[
        str | None,
        Option(
            "The benchmark's configuration: the GoodAI benchmark's files as published, or one of your own.",
            "CONFIG.yml",
            _TESTING,
            flags=("--config", "-c"),
        ),
    ] = None
    endpoint: Annotated[
        str | None,
        Option(
            "The agent: a definition, or the name of one in endpoints/; kind memory_agent has a memory of its own.",
            "FILE",
            _TESTING,
        ),
    ] = None
    max_prompt_size: Annotated[
        int | None,
        Option(
            "Send the agent at most N tokens of the conversation, the oldest exchanges left out.",
            "N",
            _TESTING,
            least=1,
        ),
    ] = None
    isolated: Annotated[
        bool,
        Option(
            "Each test in a conversation of its own: nothing in between, and time passes at once.",
            panel=_TESTING,
        ),
    ] = False
    clock: Annotated[
        str | None,
        Option(
            "virtual: a message takes a second, waits none (default); mirrored: the agent is told when time passes; "
            "real: waits are waited for.",
            "CLOCK",
            _TESTING,
        ),
    ] = None
    seed: Annotated[
        int | None,
        Option("Of definitions and filler; by default the configuration's, and 0.", "N", _TESTING, least=0),
    ] = None
    repeat: Annotated[
        int | None,
        Option(
            "Have the conversation K times, side by side: how reliably is each test passed?",
            "K",
            _TESTING,
            least=1,
        ),
    ] = None
    regenerate: Annotated[bool, Option("Make the definitions anew, though they are there.", panel=_TEXTS)] = False
    reuse: Annotated[
        bool,
        Option(
            "Take the definitions that are there as they are, whatever they were made of. By default they are taken "
            "if they were made of this configuration.",
            panel=_TEXTS,
        ),
    ] = False
    definitions: Annotated[
        str | None,
        Option(
            "Where the definitions are kept; by default datasets/memory/<run name>/definitions.",
            "DIR",
            _TEXTS,
        ),
    ] = None
    filler: Annotated[
        str | None,
        Option(
            "Questions and answers to fill the time with; by default a small pool that ships.",
            "FILE",
            _TEXTS,
        ),
    ] = None
    wording: Annotated[str | None, Option("What is said besides the tests' own texts.", "FILE", _TEXTS)] = None
    texts: Annotated[
        str | None,
        Option("Texts for chapter break, which is left out without them.", "PATH", _TEXTS),
    ] = None
    generator: Annotated[
        str | None,
        Option(
            "The model that writes what some kinds of tests are made of: a definition, or the name of one.",
            "FILE",
            _TEXTS,
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        Option("What tokens are counted with; by default cl100k_base.", "NAME", RUNNING),
    ] = None
    resume: Annotated[
        str | None,
        Option(
            "Go on with a run where it stopped, with the options it was started with. RUN: its id, the beginning of "
            "it, its folder, or last. Without RUN: the unfinished run of these options, or a new one if there is none.",
            "[RUN]",
            RUNNING,
            bare=UNFINISHED,
            recorded=False,
        ),
    ] = None
    fresh: Annotated[
        bool,
        Option(
            "Begin anew, and do not say that a run of this configuration is unfinished. Without --resume a run is "
            "always a new one, and nothing is ever deleted.",
            panel=RUNNING,
            recorded=False,
        ),
    ] = False

    def of_the_same(self) -> dict[str, JSON]:
        """What makes two runs ones of the same configuration."""
        return {name: value for name, value in self.recorded().items() if name not in _INCIDENTAL}
