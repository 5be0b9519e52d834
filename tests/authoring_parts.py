"""Shared parts of the tests of `datasets author`: a small service, and a workspace in which sets are authored."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tunecheck import EvaluationResult, MultiTurnStateEvaluator
from tunecheck.calls import FunctionCall
from tunecheck.cli import main
from tunecheck.episodes import Services
from tunecheck.formats import read_python_calls
from tunecheck.simulators import Backends
from tunecheck_authoring import AuthorOptions, AuthorReport, Finding, RowCheck, author, checked_rows

LIBRARY = '''
from tunecheck.simulators import Simulator, SimulatorError, tool


class Library(Simulator):
    bounded = True

    @classmethod
    def sample(cls):
        return {
            "reader": {"$one_of": [7, 7, 9, None]},
            "shelf": {"$some": ["Emma", "Ulysses", "Dracula", "Middlemarch", "Walden", "Ivanhoe"]},
            "next_loan": {"$between": [4000, 4999]},
        }

    def load(self, config, *, long_context=None):
        self.reader = config.get("reader")
        self.shelf = list(config.get("shelf", []))
        self.loans = {}
        self.notes = []
        self.next_loan = config.get("next_loan", 1)

    def state(self):
        return {"reader": self.reader, "shelf": self.shelf, "loans": self.loans, "notes": self.notes}

    @tool
    def sign_in(self, reader_id: int) -> dict:
        """Signs a reader in.

        Args:
            reader_id: The reader's number.
        """
        if self.reader == reader_id:
            return {"status": "signed in already"}
        self.reader = reader_id
        return {"reader": reader_id}

    @tool
    def list_shelf(self) -> dict:
        """List the books on the shelf."""
        return {"titles": list(self.shelf)}

    @tool
    def borrow(self, title: str, weeks: int = 2) -> dict:
        """Borrow a book.

        Args:
            title: Its title.
            weeks: For how long.
        """
        if self.reader is None:
            raise SimulatorError("sign in to borrow")
        if title not in self.shelf:
            raise SimulatorError(f"{title} is not on the shelf")
        self.shelf.remove(title)
        self.next_loan += 1
        self.loans[self.next_loan] = [title, weeks]
        return {"loan_id": self.next_loan}

    @tool
    def give_back(self, loan_id: int) -> dict:
        """Give a borrowed book back.

        Args:
            loan_id: The number of the loan.
        """
        if loan_id not in self.loans:
            raise SimulatorError(f"there is no loan {loan_id}")
        title, _ = self.loans.pop(loan_id)
        self.shelf.append(title)
        return {"returned": title}

    @tool
    def leave_note(self, text: str) -> dict:
        """Leave a note for the staff.

        Args:
            text: What it says.
        """
        self.notes.append(text)
        return {"notes": len(self.notes)}

    @tool
    def ring_bell(self, tone: str) -> dict:
        """Ring the bell on the desk.

        Args:
            tone: Which tone.
        """
        self.notes.append("bell")
        return {"rung": True}

    @tool
    def open_vault(self, key: str) -> dict:
        """Open the vault.

        Args:
            key: The key.
        """
        raise SimulatorError("the vault stays closed")
'''


@contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """A workspace with the library, which is the current folder."""
    (folder / "simulators").mkdir(exist_ok=True)
    (folder / "simulators" / "library.py").write_text(LIBRARY)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


def authored(name: str = "loans", simulators: Sequence[str] = ("library",), **options: Any) -> AuthorReport:
    """A data set authored in the current folder."""
    return author(AuthorOptions(name=name, **{"tasks": 12, "turns": "2-3", **options}), simulators, Backends())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def export(folder: Path, result: EvaluationResult, form: str, *options: str, free: bool = True) -> list[dict[str, Any]]:
    """The lines of examples that `datasets export` writes; `free` says that the rows are in no test set."""
    out = folder / f"{form}.jsonl"
    arguments = ["datasets", "export", str(result.run_dir), "--to", form, "--out", str(out), *options]
    assert main([*arguments, *(["--no-test-set"] if free else [])]) == 0
    return lines(out)


def calls_of(row: dict[str, Any]) -> list[list[FunctionCall]]:
    """The ground truth's calls by turn."""
    return [[call for text in turn for call in read_python_calls(text).calls] for turn in row["ground_truth"]]


def passes(row: dict[str, Any], turns: Sequence[Sequence[FunctionCall]]) -> bool:
    """Whether an agent that makes these calls passes the row, by the evaluator that users have."""
    result = [[[{call.name: json.dumps(call.arguments)}] for call in turn] for turn in turns]
    columns = {name: row.get(name) for name in ("ground_truth", "involved_classes", "initial_config", "turns")}
    verdict = MultiTurnStateEvaluator()(result=result, free_calls=row.get("free_calls"), **columns)
    return verdict["multi_turn_state"] == 1.0


def findings(
    rows: Iterable[Mapping[str, object]], services: Services | None = None, *, row_check: RowCheck | None = None
) -> Iterator[Finding]:
    """The findings of all rows."""
    for row in checked_rows(rows, services, row_check=row_check):
        yield from row.findings
