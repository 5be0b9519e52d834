"""Calls read as the tool parsers of vLLM and SGLang read them, wherever one of their family's parsers reads them right.

The cases are those of the official chat templates, as they stand and with what models add or leave out.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from checks.chat_templates import chat_templates
from checks.formats_cases import Case, all_cases, as_pairs, exactly
from tests.reference_environments import make_environment

from tunecheck import read_calls

_PARSERS = "sglang==0.5.23", "vllm==0.33.0"
_NEEDED = (
    "cohere-melody", "fastapi", "ijson", "jinja2", "mistral-common", "msgspec", "numpy", "openai", "openai-harmony",
    "orjson", "packaging", "partial-json-parser", "pillow", "pybase64", "pydantic", "regex", "requests", "tqdm",
    "transformers",
)  # fmt: skip
_PROGRAM = Path(__file__).parent / "servers_parsers.py"
_MOST_PARSERS = 3
"""How many parsers of each server are asked for a family, of those that read its plain call right."""

_CHANGES: dict[str, Callable[[str], str]] = {
    "as it is": lambda raw: raw,
    "after a line": lambda raw: f"Let me see.\n{raw}",
    "after empty lines": lambda raw: f"\n\n{raw}",
    "before a line": lambda raw: f"{raw}\nThat is all.",
    "without its end": lambda raw: raw[: raw.rindex("<")] if "<" in raw[1:] else raw,
}

THEIRS_ALONE = {("llamacpp__LFM2.5-8B-A1B", "code"), ("llamacpp__ByteDance-Seed-OSS", "lines")}
"""Cases that we read otherwise, and they are right: one template writes apostrophes in code without an escape, and
MiMo's parser keeps the line break that Seed-OSS's own parser removes."""


class Servers:
    """The parsers of both servers, in a process of their own."""

    def __init__(self, python: Path) -> None:
        command = [str(python), "-P", str(_PROGRAM)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.parsers: list[str] = self._answer()["parsers"]

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def read(self, text: str, tools: Sequence[Mapping[str, Any]], parsers: Sequence[str] | None = None) -> Any:
        """What each of these parsers, or of all, makes of a text."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"text": text, "tools": tools, "parsers": parsers}) + "\n")
        self._process.stdin.flush()
        return self._answer()["read"]

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    try:
        python = make_environment("parsers", *_NEEDED, without_dependencies=_PARSERS)
    except RuntimeError as error:
        pytest.skip(f"the servers' packages cannot be had: {error}")
    started = Servers(python)
    yield started
    started.close()


def right(read: Mapping[str, Any], case: Case) -> list[str]:
    """The parsers that read a case as it was meant."""
    wanted = [list(call) for call in case.calls]
    return [name for name, calls in read.items() if exactly(calls, wanted)]


def parsers_of(servers: Servers, cases: Sequence[Case]) -> dict[str, list[str]]:
    """The parsers of each family: those that read its plain call, of each server the first ones."""
    found: dict[str, list[str]] = {}
    for case in cases:
        if case.label.startswith("plain, alone"):
            names = right(servers.read(case.raw, case.tools), case)
            by_server = ([name for name in names if name.startswith(server)] for server in ("vllm", "sglang"))
            found[case.family] = [name for its in by_server for name in its[:_MOST_PARSERS]]
    return found


@pytest.mark.timeout(900)
def test_what_a_server_s_parser_reads_right_is_read_so_here(servers: Servers) -> None:
    assert len(servers.parsers) > 90
    cases = all_cases(chat_templates())
    parsers = parsers_of(servers, cases)
    counted: Counter[str] = Counter()
    behind: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for case in cases:
        for change, apply in _CHANGES.items():
            raw = apply(case.raw)
            theirs = right(servers.read(raw, case.tools, parsers.get(case.family, [])), case)
            reading = read_calls(raw, tools=case.tools)
            ours = exactly(as_pairs(reading), case.calls)
            counted[f"{'right' if ours else 'wrong'} here, {'right' if theirs else 'wrong'} there"] += 1
            if theirs and not ours and reading.cause != "cut_off":  # a call without its end is told, not guessed
                behind[case.family, case.label.split(",")[0]].append(f"{change}: {', '.join(theirs)}")
    print(f"{len(parsers)} families, {sum(map(bool, parsers.values()))} of them with parsers;", dict(counted))
    for (family, label), ways in sorted(behind.items()):
        print(family, label, *ways, sep=" | ")
    assert counted["right here, right there"] > 5_000
    assert behind.keys() <= THEIRS_ALONE


def test_the_parsers_that_the_doctor_names_are_those_of_the_servers(servers: Servers) -> None:
    theirs = {name.rpartition(":")[2].rpartition("/")[2] for name in servers.parsers}
    families = tomllib.loads(files("tunecheck.formats").joinpath("families.toml").read_text("utf-8"))["families"]
    parsers = [parser for family in families.values() for parser in family.get("servers", ())]
    named = {parser[server] for parser in parsers for server in ("vllm", "sglang") if parser.get(server)}
    assert named <= theirs
