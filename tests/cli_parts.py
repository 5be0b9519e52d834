"""Shared parts of the tests of the command line: a small workspace, and commands in it."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tunecheck.cli import main
from tunecheck.results import FirstScreen
from tunecheck.views import Table

ROOT = Path(__file__).resolve().parent.parent

SIDECAR = """\
column_mapping:
  ground_truth: ${data.answer}
  tool_definitions: ${data.tools}
  response: ${target.response}
evaluators: [function_call_match, match]
"""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "book",
            "parameters": {
                "type": "object",
                "properties": {"day": {"type": "string"}, "people": {"type": "integer"}, "note": {"type": "string"}},
                "required": ["day"],
            },
        },
    }
]


@dataclass(frozen=True)
class Said:
    """The output of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


SCREEN = FirstScreen(("match: 31 of 46 rows passed.", "No row failed.", "Next, look"), Table([], []))
"""The first screen of a run that has no folder, from which it could be read."""


FIRST_TIME = "note: you have no earlier run in this folder; this run loads the code {}\n"
"""What is said before code of a workspace runs for the first time."""

Command = Callable[..., Said]


def call(day: str = "2026-03-05", people: object = 2, name: str = "book") -> dict[str, object]:
    """A ground truth or a response that calls the one function there is."""
    return {"tool_uses": [{"recipient_name": f"functions.{name}", "parameters": {"day": day, "people": people}}]}


def rows(count: int = 6, **columns: object) -> list[dict[str, object]]:
    """Rows that ask for a call and for an answer, in turns."""
    return [
        {
            "id": f"r{number}",
            "query": [{"role": "user", "content": f"question {number}"}],
            "answer": call(people=number + 2) if number % 2 == 0 else f"the answer to question {number} is this one",
            "tools": TOOLS,
            "city": "Oslo" if number < 2 else "Rome",
            **columns,
        }
        for number in range(count)
    ]


def write_lines(path: Path, values: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")
    return path


def workspace(folder: Path, data: Sequence[Mapping[str, object]] | None = None) -> Path:
    """A folder with `datasets/small.jsonl` and its sidecar."""
    write_lines(folder / "datasets" / "small.jsonl", rows() if data is None else data)
    (folder / "datasets" / "small.yaml").write_text(SIDECAR, "utf-8")
    (folder / "endpoints").mkdir(exist_ok=True)
    return folder


def replay(folder: Path, answers: Mapping[str, object], name: str = "recorded") -> Path:
    """An endpoint that answers each row id as given."""
    write_lines(folder / "endpoints" / f"{name}.jsonl", [{"id": key, "response": it} for key, it in answers.items()])
    path = folder / "endpoints" / f"{name}.yaml"
    path.write_text(f"kind: replay\npath: {name}.jsonl\n", "utf-8")
    return path


def right_answers(wrong: Mapping[str, object] | None = None) -> dict[str, object]:
    """The ground truth of `rows` by id, with these answers instead; None leaves a row without an answer."""
    answers = {**{str(row["id"]): row["answer"] for row in rows()}, **(wrong or {})}
    return {name: answer for name, answer in answers.items() if answer is not None}


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def like(text: str, found: str) -> bool:
    """Whether both are the same, where `…` stands for any text, and any white space for one space."""
    return re.fullmatch(re.escape(" ".join(text.split())).replace("…", ".*"), " ".join(found.split())) is not None


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tunecheck", *arguments]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100", "NO_COLOR": "1", **more}


def process(folder: Path, *arguments: str, **more: str) -> Said:
    """Run a command as a process of its own."""
    return run_process(folder, command(*arguments), **more)


def pytest_in(folder: Path) -> Said:
    """Run the tests in a folder as a process of its own."""
    return run_process(folder, [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"])


def script(folder: Path, path: str, *arguments: str, **more: str) -> Said:
    """Run a script of the repository, as a clone's user types it."""
    return run_process(folder, [sys.executable, str(ROOT / path), *arguments], **more)


def run_process(folder: Path, words: Sequence[str], **more: str) -> Said:
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def inside(folder: Path, *arguments: str, **more: str) -> Said:
    """Run a command as `process` does, in this process: it need not start one, nor import everything again."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
    with (
        contextlib.chdir(folder),
        patch.dict(os.environ, environment(**more)),
        patch.object(sys, "argv", [str(ROOT / "src" / "tunecheck" / "__main__.py"), *arguments]),
        patch.object(sys, "stdin", io.StringIO()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(arguments)
    return Said(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def outside_code(page: str) -> str:
    """A Markdown page without its code spans: a run of backticks up to the next run of as many (CommonMark 6.1)."""
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", page)


def here(capsys: pytest.CaptureFixture[str], *arguments: str) -> Said:
    """Run a command in this process, in the current folder."""
    capsys.readouterr()
    code = main(arguments)
    said = capsys.readouterr()
    return Said(code, said.out, said.err)
