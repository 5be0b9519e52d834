"""What a finished test says of itself: the columns of its row, which evaluators score and the report shows."""

from __future__ import annotations

from collections.abc import Mapping

from tunecheck._json import JSON, whole_number
from tunecheck.memory._kind import Kind
from tunecheck.memory._model import Given, Score
from tunecheck.memory._tasks import Test
from tunecheck.memory._test_states import TestBook

OUTPUT_COLUMNS = (
    "response",
    "responses",
    "questions",
    "since_question",
    "points",
    "reasons",
    "own_score",
    "log",
    "session",
    "began",
    "ended",
    "tokens",
    "characters",
    "needles",
    "usage",
    "share",
    "judged",
    "latency_ms",
    "simulated",
)


def given_of(book: TestBook, test: Test) -> Given:
    """What a finished test is scored by."""
    definition = test.definition
    return Given(
        title=definition.title,
        expected=definition.expected,
        responses=book.responses,
        args=test.kind.arguments,
        questions=book.questions,
        since_question=book.since_question,
        points=book.points,
        script=definition.script,
    )


def output_columns(book: TestBook, test: Test, session: str) -> dict[str, JSON]:
    """A finished test's columns.

    response: the last reply to a question.
    responses, questions: all of them, in order.
    since_question: every reply in the conversation from the question's own on; only of a test with a callback.
    points, reasons: `{"points", "most"}` and why, where the test counted itself.
    own_score: what the rules of somebody's own kind of test give, with its `reasons`; None of all others.
    log: the test's own events: `{"what", "message", "tokens", "at", …}`, where `message` and `tokens` count what was
        said in the whole conversation before it; statements and questions say their `size` in tokens with the reply.
    session: the conversation's name.
    began, ended: `{"message", "tokens", "at"}`.
    tokens, characters: of the whole conversation while the test lasted: how far it had to remember.
    needles: statements, as opposed to questions.
    usage: what its own messages took; share: what the conversation took since the test before it ended, so that the
        shares of all tests come to the whole; simulated replies are left out.
    judged: what its questions to the judge took; None where no model was asked.
    latency_ms: sum over its own messages.
    """
    assert book.ended is not None
    definition, points, own = test.definition, book.points, _own_score(book, test)
    reasons = own.reasons if own is not None else points.reasons if points is not None else ()
    counted: dict[str, JSON] | None = None if points is None else {"points": points.points, "most": points.most}
    return {
        "response": book.responses[-1] if book.responses else None,
        "responses": [*book.responses],
        "questions": [*book.questions],
        "since_question": [*book.since_question],
        "points": counted,
        "reasons": [*reasons],
        "own_score": None if own is None else own.score,
        "log": book.log,
        "session": session,
        "began": book.begun.data(),
        "ended": book.ended.data(),
        "tokens": book.ended.tokens - book.begun.tokens,
        "characters": book.characters,
        "needles": len(definition.script) - sum(definition.is_question[: len(definition.script)]),
        "usage": book.spent.data(),
        "share": book.share.data(),
        "judged": book.judged.data() if book.judged.calls else None,
        "latency_ms": book.spent.latency_ms,
        "simulated": book.simulated,
    }


def _own_score(book: TestBook, test: Test) -> Score | None:
    """The score by a kind's own rules; what is raised there becomes the row's error."""
    if type(test.kind).score is Kind.score:
        return None
    found: object = test.kind.score(given_of(book, test))
    if found is not None and not isinstance(found, Score):
        raise TypeError(f"the score of {book.id} is a {type(found).__name__}; expected a Score, or None")
    return found


def share_of(output: Mapping[str, JSON], column: str) -> tuple[int, int | None, int | None]:
    """What an answer adds to what the run has taken, by one of these columns: calls, and tokens in and out."""
    share = output.get(column)
    counts = share if isinstance(share, dict) else {}
    calls, *tokens = (whole_number(counts.get(name)) for name in ("calls", "input_tokens", "output_tokens"))
    return calls or 0, tokens[0], tokens[1]
