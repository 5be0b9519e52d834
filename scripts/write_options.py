"""The page of all commands and options, docs/options.md, from the commands' own help.

python scripts/write_options.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tunecheck.plugins import discover

PAGE = Path(__file__).resolve().parent.parent / "docs" / "options.md"
HEAD = """# All options

This page has the help of every command (`evaluate` and `score`: `--help-all`). [The command line](command-line.md)
shows the commands at work.

* RUN is a [run's name or id](command-line.md), its folder, or `last`.
* An endpoint (`--endpoint`, `--judge`, `--writer` …) is a [definition](endpoints.md): a file, or its name in
  `endpoints/`.
* A *(repeatable)* option takes one value each time. `A,B` stands for several values with commas.
* AMOUNT of `--max-cost` is in the currency of the models' [prices](judges.md#cost).
* A *gate against a run* is `--no-worse-than` or `--better-than` ([gates](gates.md)).
* *Dependent rows*, such as the turns of one conversation, form a
  [cluster](comparison-figures.md#rows-that-belong-together).
"""
ALL = ("evaluate", "score")
"""The commands whose `--help` leaves rare options to `--help-all`."""


def page() -> str:
    """Return the page: the help of each command, in the order of their names."""
    names = sorted(command.name for command in discover("commands"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        sections = pool.map(_section, names)
    return HEAD + "".join(sections)


def _section(name: str) -> str:
    words = [sys.executable, "-m", "tunecheck", *name.split(), "--help-all" if name in ALL else "--help"]
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    text = done.stdout.replace("python -m tunecheck", "tunecheck").strip("\n")
    return f"\n## {name}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
