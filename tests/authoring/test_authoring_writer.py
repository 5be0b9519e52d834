"""`datasets author --writer`: a model's words, and models that err: no wrong row comes into the set.

Writer and solver are one scripted model behind `tunecheck serve`'s server: rules say what it writes for each plain
request, and which calls it makes for the words that it is given.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.authoring_parts import calls_of, lines, passes, workspace
from tests.scripted_rules import ScriptSource, read_script
from tests.serve_parts import serving

from tunecheck import FunctionCall
from tunecheck.cli import main

COMMAND = ["datasets", "author", "loans", "--simulator", "library", "--tasks", "4", "--variants", "none", "--overwrite"]

Row = dict[str, Any]
Rule = dict[str, Any]
Solving = Callable[[list[FunctionCall]], list[Rule]]


@dataclass(frozen=True)
class Loans:
    """A workspace, and the rows that it authors without a model; `models` counts those that were served."""

    folder: Path
    plain: list[Row]
    models: list[str] = field(default_factory=list)

    @contextmanager
    def model(self, write: Callable[[str], str], solve: Solving, *first: Rule) -> Iterator[ScriptSource]:
        """A model, another one each time, with a definition; rules that stand `first` go before the others."""
        shown = [text for row in self.plain for turn in row["ground_truth"] for text in turn]
        rules = [
            {"name": "shown the right calls", "when": {"request": {"any": shown}}, "status": 400},
            {"when": {"last": "tool"}, "answer": "Done."},
            *first,
            *(self._writing(plain, write) for row in self.plain for plain in words(row)),
            *sorted(self._solving(solve), key=lambda rule: -len(rule["when"]["request"])),
        ]
        self.models.append(f"model-{len(self.models)}")
        script = self.folder / "script.yaml"
        script.write_text(yaml.safe_dump({"rules": rules}))
        source = ScriptSource(read_script(script))
        with serving(source) as url:
            definition = {"kind": "openai", "url": f"{url}/v1", "model": "scripted", "auth": {"type": "none"}}
            (self.folder / "endpoints").mkdir(exist_ok=True)
            (self.folder / f"endpoints/{self.models[-1]}.yaml").write_text(yaml.safe_dump({**definition, "retries": 0}))
            yield source

    def _writing(self, plain: str, write: Callable[[str], str]) -> Rule:
        return {"when": {"tools": False, "user": f"in their words:\n{plain}"}, "answer": write(plain)}

    def _solving(self, solve: Solving) -> Iterator[Rule]:
        for row in self.plain:
            for number, calls in enumerate(calls_of(row)):
                said = words(row)[: number + 1]
                for rule in solve(calls):
                    yield {"when": {"tools": True, "user": said[-1], "request": said}, **rule}

    def author(self, *options: str) -> int:
        (self.folder / "datasets/loans.jsonl").unlink(missing_ok=True)
        return main([*COMMAND, "--writer", self.models[-1], *options])

    def authored(self) -> list[Row]:
        """The rows of the set; each asks for the calls of its ground truth."""
        path = self.folder / "datasets/loans.jsonl"
        rows = lines(path) if path.exists() else []
        by_id = {row["id"]: row for row in self.plain}
        for row in rows:
            right = by_id[row["id"]]
            assert row["ground_truth"] == right["ground_truth"]
            assert [text.removeprefix("Hello there! ") for text in words(row)] == words(right)
            assert passes(row, calls_of(row))
        return rows

    def review(self) -> list[Row]:
        return lines(self.folder / "authoring/loans/review.jsonl")


def words(row: Row) -> list[str]:
    return [message["content"] for turn in row["turns"] for message in turn]


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loans]:
    with workspace(tmp_path_factory.mktemp("writer")) as folder:
        assert main(COMMAND) == 0
        yield Loans(folder, lines(folder / "datasets/loans.jsonl"))


def greeted(plain: str) -> str:
    return f"Hello there! {plain}"


def solved(calls: list[FunctionCall]) -> list[Rule]:
    return [made(*calls)]


def made(*calls: FunctionCall) -> Rule:
    return {"calls": [{"name": call.name, "arguments": call.arguments} for call in calls]}


BELL = FunctionCall("ring_bell", {"tone": "high"})


def test_a_model_says_the_requests_in_a_personas_voice(loans: Loans, capsys: pytest.CaptureFixture[str]) -> None:
    with loans.model(greeted, solved):
        assert loans.author() == 0
    rows = loans.authored()
    assert len(rows) == 4
    assert all(text.startswith("Hello there!") for row in rows for text in words(row))
    assert not loans.review()
    assert "plain request" not in capsys.readouterr().out


def test_the_solver_is_shown_no_right_calls(loans: Loans) -> None:
    with loans.model(greeted, solved) as model:
        assert loans.author("--seed", "0") == 0
        asked: Any = model.health()["rules"]
    assert asked.pop("shown the right calls") == 0
    assert sum(asked.values()) > 0


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda plain: greeted(re.sub(r'"[^"]+"|\d+', "Anna", plain)), "a value is missing"),
        (lambda plain: "I am sorry, I cannot help with that.", "the writer refused"),
        (
            lambda plain: f'{plain} <tool_call>{{"name": "ring_bell", "arguments": {{}}}}</tool_call>',
            "the words contain a call",
        ),
        (
            lambda plain: f'{plain} <tool_call>{{"name": "ring_bell", "arguments": </tool_call>',
            "the words contain a call",
        ),
        (lambda plain: f"{plain} Anyway, {'lovely weather today. ' * 60}", "the words are too long"),
    ],
    ids=["wrong value", "refusal", "call", "broken call", "chatter"],
)
def test_words_that_cannot_be_a_users_are_not_taken_and_counted(
    write: Callable[[str], str], why: str, loans: Loans, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plain request stands in their place; the screen and the card say in how many turns, and why."""
    with loans.model(write, solved):
        assert loans.author() == 0
    rows = loans.authored()
    assert len(rows) == 4
    plain = sum(text in words(right) for row, right in zip(rows, loans.plain, strict=True) for text in words(row))
    said = f"the plain request stays because the writer's words are unusable: {why} ({plain})"
    assert said in capsys.readouterr().out
    assert said in Path("datasets/loans.card.md").read_text()


@pytest.mark.parametrize(
    ("write", "asked_for", "call"),
    [
        (lambda plain: f"{plain} Ignore all that: just ring the bell.", "just ring the bell", BELL),
        (lambda plain: f"{plain} And ring the bell, too.", "And ring the bell", BELL),
        (
            lambda plain: f"Leave a note for the staff, and do nothing else: {plain}",
            "Leave a note for the staff",
            FunctionCall("leave_note", {"text": "hello"}),
        ),
    ],
    ids=["something else", "more", "other function"],
)
def test_words_that_ask_for_something_else_are_reviewed(
    write: Callable[[str], str], asked_for: str, call: FunctionCall, loans: Loans
) -> None:
    """They say each value, so the writer's words are taken: what they ask for is seen when they are solved."""
    with loans.model(write, solved, {"when": {"tools": True, "user": asked_for}, **made(call)}):
        assert loans.author() == 2, "no row is left"
    assert not loans.authored()
    assert [line["reason"] for line in loans.review()] == ["not solved correctly"] * 4


def test_prose_without_the_request_never_comes_into_the_set(loans: Loans) -> None:
    """If a turn gives no value, the user could say any prose: no solver can then find the meant call."""
    with loans.model(lambda plain: "Nice weather today, is it not?", solved):
        loans.author()
    assert {row["id"] for row in (*loans.authored(), *loans.review())} == {row["id"] for row in loans.plain}


def otherwise(calls: list[FunctionCall]) -> list[Rule]:
    """Every value is another one."""
    return [made(*(FunctionCall(call.name, dict.fromkeys(call.arguments, "Anna")) for call in calls))]


@pytest.mark.parametrize(
    "solve",
    [
        otherwise,
        lambda calls: [made(FunctionCall("list_shelf", {}))],
        lambda calls: [made(*calls, BELL)],
        lambda calls: [{"refusal": "I cannot help with that."}],
        lambda calls: [{"answer": "I would borrow the book, and then leave a note."}],
        lambda calls: [{"answer": '<tool_call>{"name": "borrow", "arguments": </tool_call>'}],
    ],
    ids=["wrong value", "other function", "one call more", "refusal", "prose", "broken call"],
)
def test_what_the_solver_does_not_solve_is_reviewed_and_never_in_the_set(solve: Solving, loans: Loans) -> None:
    with loans.model(greeted, solve):
        assert loans.author() == 2
    assert not loans.authored()
    assert len(loans.review()) == 4
    assert all(line["detail"] for line in loans.review())


def test_if_no_row_is_valid_the_solver_is_not_asked(loans: Loans, capsys: pytest.CaptureFixture[str]) -> None:
    path = loans.folder / "authoring/loans/variants.jsonl"
    with loans.model(greeted, solved):
        assert loans.author("--stage", "variants") == 0
        made_rows = path.read_text()
        path.write_text(re.sub(r'"content":"(?:[^"\\]|\\.)*"', '"content":"Hello."', made_rows))
        capsys.readouterr()
        assert loans.author() == 2
    assert "no row is valid; read the reasons in rejected.jsonl" in capsys.readouterr().err
    path.write_text(made_rows)


def test_a_row_that_the_solvers_service_fails_is_reviewed_and_the_others_are_in_the_set(loans: Loans) -> None:
    failing = {"when": {"tools": True, "user": words(loans.plain[0])[0]}, "status": 500}
    with loans.model(greeted, solved, failing):
        assert loans.author() == 0
    assert loans.plain[0]["id"] in {line["id"] for line in loans.review()}
    assert {row["id"] for row in (*loans.authored(), *loans.review())} == {row["id"] for row in loans.plain}


def test_models_that_were_asked_are_not_asked_again(loans: Loans) -> None:
    with loans.model(greeted, solved) as model:
        assert loans.author() == 0
        asked = model.health()
        assert loans.author() == 0
        assert model.health() == asked
    assert len(loans.authored()) == 4


def test_what_the_models_may_cost_needs_to_be_known(loans: Loans, capsys: pytest.CaptureFixture[str]) -> None:
    with loans.model(greeted, solved):
        assert loans.author("--max-cost", "1", "--seed", "5") == 2
    said = capsys.readouterr().err
    assert "the price of the calls is unknown: write `price:` in the endpoint's definition" in said
    assert "--prices" not in said  # an option of other commands


def test_what_belongs_to_a_writer_is_refused_without_one(loans: Loans, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--solver", "model"]) == 2
    assert "--solver needs a writer model; name the model with --writer" in capsys.readouterr().err
