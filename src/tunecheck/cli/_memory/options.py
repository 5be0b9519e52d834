"""The options of `tunecheck memory run` that no other command has."""

from __future__ import annotations

from typing import Annotated

import typer

from tunecheck.cli._parameters import RUNNING

_TESTING, _TEXTS = "What is tested, and how", "Texts and definitions"

Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="CONFIG.yml",
        help="The benchmark's configuration: the GoodAI benchmark's files as published, or one of your own.",
        rich_help_panel=_TESTING,
    ),
]
EndpointFile = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        metavar="FILE",
        help="The agent: a definition, or the name of one in endpoints/; kind memory_agent has a memory of its own.",
        rich_help_panel=_TESTING,
    ),
]
MaxPromptSize = Annotated[
    int | None,
    typer.Option(
        "--max-prompt-size",
        metavar="N",
        min=1,
        help="Send the agent at most N tokens of the conversation, the oldest exchanges left out.",
        rich_help_panel=_TESTING,
    ),
]
Isolated = Annotated[
    bool,
    typer.Option(
        "--isolated",
        help="Each test in a conversation of its own: nothing in between, and time passes at once.",
        rich_help_panel=_TESTING,
    ),
]
Clock = Annotated[
    str | None,
    typer.Option(
        "--clock",
        metavar="CLOCK",
        help="virtual: a message takes a second, waits none (default); mirrored: the agent is told when time passes; "
        "real: waits are waited for.",
        rich_help_panel=_TESTING,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        help="Of definitions and filler; by default the configuration's, and 0.",
        rich_help_panel=_TESTING,
    ),
]
Repeat = Annotated[
    int | None,
    typer.Option(
        "--repeat",
        metavar="K",
        min=1,
        help="Have the conversation K times, side by side: how reliably is each test passed?",
        rich_help_panel=_TESTING,
    ),
]
Regenerate = Annotated[
    bool,
    typer.Option("--regenerate", help="Make the definitions anew, though they are there.", rich_help_panel=_TEXTS),
]
ReuseDefinitions = Annotated[
    bool,
    typer.Option(
        "--reuse",
        help="Take the definitions that are there as they are, whatever they were made of. By default they are taken "
        "if they were made of this configuration.",
        rich_help_panel=_TEXTS,
    ),
]
Definitions = Annotated[
    str | None,
    typer.Option(
        "--definitions",
        metavar="DIR",
        help="Where the definitions are kept; by default datasets/memory/<run name>/definitions.",
        rich_help_panel=_TEXTS,
    ),
]
Filler = Annotated[
    str | None,
    typer.Option(
        "--filler",
        metavar="FILE",
        help="Questions and answers to fill the time with; by default a small pool that ships.",
        rich_help_panel=_TEXTS,
    ),
]
Wording = Annotated[
    str | None,
    typer.Option(
        "--wording", metavar="FILE", help="What is said besides the tests' own texts.", rich_help_panel=_TEXTS
    ),
]
Texts = Annotated[
    str | None,
    typer.Option(
        "--texts",
        metavar="PATH",
        help="Books for chapter break, which is left out without them.",
        rich_help_panel=_TEXTS,
    ),
]
Generator = Annotated[
    str | None,
    typer.Option(
        "--generator",
        metavar="FILE",
        help="The model that writes what some kinds of tests are made of: a definition, or the name of one.",
        rich_help_panel=_TEXTS,
    ),
]
TokenizerName = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="NAME",
        help="What tokens are counted with; by default cl100k_base.",
        rich_help_panel=RUNNING,
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="[RUN]",
        help="Go on with a run where it stopped, with the options it was started with. RUN: its id, the beginning of "
        "it, its folder, or last. Without RUN: the unfinished run of these options, or a new one if there is none.",
        rich_help_panel=RUNNING,
    ),
]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Begin anew, and do not say that a run of this configuration is unfinished. Without --resume a run is "
        "always a new one, and nothing is ever deleted.",
        rich_help_panel=RUNNING,
    ),
]
