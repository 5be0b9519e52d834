"""Score memory tests from 0 to 1: by the rules of the shipped kinds, and by a judge if rules do not suffice.

The score comes from the first of these that the row has (`by` in the verdict's properties):

1. **rules**: `own_score`, the score that a user's own kind gave
2. **points**: the points that the test counted while it ran
3. **words**: the rules of the shipped kind with the title in `dataset`

A judge scores instead (**judge**) if the rules are not sure, or if there is no score. Without a judge, the score of
unsure rules stands, and a row without a score is not applicable. A row without expected texts or replies has nothing to
ask a judge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from tunecheck import ConfigurationError, Evaluator, Fault, Metric, verdict
from tunecheck.endpoints import Endpoint, ModelCalls
from tunecheck.evaluators import ModelConfig, judge_endpoint, none_if_nan
from tunecheck.plugins import JSON, Verdict, dumps, loads, plain, real_number, to_json
from tunecheck_memory._kind import FinishedTest, Kind, Points, Score, shipped_kind
from tunecheck_memory._kinds.replies import UndecidedError

if TYPE_CHECKING:
    from tunecheck import PromptyEvaluator


def read_test(
    dataset: object,
    expected: object,
    responses: object,
    *,
    points: object = None,
    reasons: object = None,
    **row: object,
) -> FinishedTest:
    """Return a row's columns as a finished test; a column may hold a value, its JSON text, or nothing.

    `row` may have the lists of texts `questions`, `since_question` and `script`.

    Raises:
        ValueError: The row names no data set, or a column's value has no JSON form.
    """
    title = none_if_nan(dataset)
    if not isinstance(title, str) or not title.strip():
        raise ValueError(f"the column `dataset` must be a memory data set's title, like Spy Meeting, not {title!r:.60}")

    return FinishedTest(
        title=title.strip(),
        expected=_as_list(expected, "expected"),
        responses=_texts(responses, "responses"),
        points=_points(_value(points, "points"), _texts(reasons, "reasons")),
        **{name: _texts(value, name) for name, value in row.items()},
    )


def _value(value: object, name: str) -> JSON:
    """Return a column's value as JSON; JSON text of a list or an object is read, because CSV files hold these as text.

    Such text that cannot be read stays a text.

    Raises:
        ValueError: The value has no JSON form.
    """
    value = none_if_nan(value)
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return loads(value)
        except ValueError:
            return value

    try:
        return plain(value)
    except TypeError as error:
        raise ValueError(f"the column `{name}` has a value that JSON cannot hold: {error}") from None


def _as_list(value: object, name: str) -> list[JSON]:
    """Return a column's value as a list: a single value as a list of one, nothing as an empty list."""
    data = _value(value, name)
    if data is None:
        return []
    return data if isinstance(data, list) else [data]


def _texts(value: object, name: str) -> list[str]:
    """Return the texts in a column's value; values of other types are left out."""
    return [each for each in _as_list(value, name) if isinstance(each, str)]


def _points(value: JSON, reasons: list[str]) -> Points | None:
    """Return the points in `{"points": 3, "most": 5}`; None if a number is missing or its size is above 1e15."""
    numbers = [real_number(value.get(key)) for key in ("points", "most")] if isinstance(value, dict) else []
    known = [each for each in numbers if each is not None and abs(each) <= _MOST_POINTS]
    return Points(known[0], known[1], tuple(reasons)) if len(known) == 2 else None


_METRIC = "memory"
_MOST_POINTS = 1e15
_RULES = 3
"""The version of the rules. Increase it if a rule changes, so that recorded verdicts are not reused."""

# The most reasons of a score that a verdict shows
_MOST_REASONS = 12


class MemoryEvaluator(Evaluator):
    """Evaluator of long-term memory tests, with scores from 0 to 1.

    Args:
        model_config: The judge's model, in any form that judges accept. The judge scores tests that rules cannot score
            with certainty. Without a judge, tests that rules cannot score are not applicable.
        threshold: The lowest score that passes.

    Required columns: `dataset` (the test's title, such as "Spy Meeting"), `expected`, and `responses` (the replies to
    the test's questions). Optional columns: `questions`, `script`, `since_question` (every reply from the question on),
    `points` (`{"points": 3, "most": 5}`, if the test counts them itself) with `reasons`, `own_score` (the score by a
    user's own kind) and `own_sure` (False: ask the judge, if there is one). The verdict's `properties` hold the data
    set and `by`: words, points, rules or judge.

    Raises:
        ConfigurationError: An argument is invalid.

    Raises, when called:
        ValueError: The row is no test: it names no data set, or a value has no JSON form.
        JudgementError, EndpointError: The judge failed.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric(_METRIC),)
    primary: ClassVar[str] = _METRIC
    judged: ClassVar[bool] = True

    def __init__(self, model_config: ModelConfig | None = None, *, threshold: float = 0.5) -> None:
        """Prepare the judge's prompts if there is a judge; refuse a threshold that is no number from 0 to 1."""
        if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1:
            raise ConfigurationError(f"threshold must be a number from 0 to 1, not {threshold!r}")

        self._threshold = float(threshold)
        self.endpoint: Endpoint | None = None if model_config is None else judge_endpoint(model_config)
        self._judges: Mapping[str, PromptyEvaluator] = {}
        if self.endpoint is not None:
            from tunecheck_memory._judging import finished_judges

            self._judges = finished_judges(self.endpoint)

        # An instance without a judge is not judged, whatever the class says. `vars`, because mypy lets no instance set
        # a class variable.
        vars(self)["judged"] = bool(self._judges)
        described: dict[str, JSON] = {name: judge.arguments for name, judge in self._judges.items()}
        super().__init__(threshold=self._threshold, rules=_RULES, judges=described or None)

    @property
    def concurrency(self) -> int | None:
        """The number of rows at once, which is that of the judge's calls; None without a judge."""
        return None if self.endpoint is None else self.endpoint.concurrency

    async def close(self) -> None:
        """Close the judge's connections; a later call opens new ones."""
        for judge in self._judges.values():  # in turn, because they share an endpoint
            await judge.close()

    def __call__(
        self,
        *,
        dataset: object,
        expected: object,
        responses: object,
        questions: object = None,
        script: object = None,
        since_question: object = None,
        points: object = None,
        reasons: object = None,
        own_score: object = None,
        own_sure: object = None,
    ) -> Verdict:
        """Score one test, from any thread, even if an event loop runs in it.

        The judge is needed only if the rules do not suffice.
        """
        row: dict[str, Any] = locals().copy()  # the columns, by the names of the parameters
        del row["self"]
        test, by_rules, judge_inputs = self._judge_by_words(row)
        if not judge_inputs:
            return by_rules

        judge = self._judges[prompt_name(test)]
        return self._verdict(test, "judge", *combine_verdicts(test, [judge(**inputs) for inputs in judge_inputs]))

    async def call_with(self, calls: ModelCalls, /, **row: Any) -> Verdict:  # noqa: ANN401 - columns of any kind
        """Score one test like a call of the evaluator, with the judge's requests made by `calls`."""
        test, by_rules, judge_inputs = self._judge_by_words(row)
        if not judge_inputs:
            return by_rules

        judge = self._judges[prompt_name(test)]
        verdicts = [await judge.call_with(calls, **inputs) for inputs in judge_inputs]
        return self._verdict(test, "judge", *combine_verdicts(test, verdicts))

    def _judge_by_words(self, row: dict[str, Any]) -> tuple[FinishedTest, Verdict, list[dict[str, object]]]:
        """Return the test, its verdict by rules, and the inputs of the judge's questions.

        Without questions, the verdict is final: the rules are sure, there is no judge, or the row lacks an expected
        text or a reply. If the rules give no score, the verdict is not applicable. `own_score`, the score by a user's
        own kind, replaces the rules; if `own_sure` is False, it is not sure. Both are removed from `row`.
        """
        own = real_number(none_if_nan(row.pop("own_score", None)))  # type: ignore[arg-type]  # any column value
        sure = none_if_nan(row.pop("own_sure", None)) is not False
        test = read_test(**row)
        questions = judge_questions(test) if self._judges else []
        try:
            found = judge_by_words(test) if own is None else Score(min(1.0, max(0.0, float(own))), (), sure)
        except UndecidedError as undecided:
            reason, properties = f"{undecided}{self._judge_hint(test)}", {"dataset": test.title}
            unscored = verdict(
                _METRIC, threshold=self._threshold, reason=reason, properties=properties, not_applicable=True
            )
            return test, unscored, questions

        # "rules" are those of a user's own kind, "words" the shipped rules.
        by = "rules" if own is not None else "words" if test.points is None else "points"
        return test, self._verdict(test, by, found), ([] if found.sure else questions)

    def _judge_hint(self, test: FinishedTest) -> str:
        """Return what a judge's score lacks, to be added to a reason; empty if the judge can score the test."""
        if not judge_questions(test):
            return "; a judge needs an expected text and a reply"
        return "" if self._judges else "; give a judge with --judge ENDPOINT (in Python model_config=…)"

    def _verdict(self, test: FinishedTest, by: str, score: Score, more: Mapping[str, JSON] | None = None) -> Verdict:
        """Return the verdict for a score; below the threshold, it has the fault `not_remembered`.

        `by` is the source of the score: words (the shipped rules), points, rules (a user's own kind) or judge. `more`
        are further properties.
        """
        reasons = [*score.reasons[:_MOST_REASONS]]
        if not score.sure:
            reasons.append(f"the rules are not sure{self._judge_hint(test)}")
        reason = "; ".join(reasons) or None
        properties: dict[str, JSON] = {"dataset": test.title, "by": by, **(more or {})}

        passed = score.score >= self._threshold
        if not passed:  # not passed as `faults`, because `verdict` would make a reason of them if there is none
            fault = Fault(code="not_remembered", expected=[*test.expected], actual=[*test.responses], message=reason)
            properties["faults"] = to_json([fault])

        return verdict(
            _METRIC, score=score.score, passed=passed, threshold=self._threshold, reason=reason, properties=properties
        )

    def __aggregate__(self, rows: Sequence[Mapping[str, JSON]]) -> dict[str, float]:
        """Return the mean score of each data set, and the sum (`score`) and mean (`accuracy`) of these means.

        The metric of "Spy Meeting" is `mean_spy_meeting`. Rows without a score are left out.
        """
        scores: dict[str, list[float]] = {}
        for row in rows:
            properties, score = row.get(f"{_METRIC}_properties"), row.get(_METRIC)
            if isinstance(properties, dict) and isinstance(score, (int, float)):
                name = re.sub(r"[\W_]+", "_", str(properties.get("dataset")).lower()[:80]).strip("_")
                scores.setdefault(name or "other", []).append(float(score))

        means = {f"mean_{name}": math.fsum(each) / len(each) for name, each in scores.items()}
        if not means:
            return {}
        total = math.fsum(means.values())
        return {"score": total, "accuracy": total / len(means), **means}


def judge_by_words(given: FinishedTest) -> Score:
    """Score a finished test by the rules of its kind, found by the test's title.

    If the test has counted its points itself, the score is their share of the most points instead. Texts of a test
    raise no other error: an unreadable reply or expected text becomes a reason.

    Raises:
        UndecidedError: Rules cannot score the test, or `most` of its points is not above 0.
    """
    kind, points = shipped_kind(given.title), given.points
    score: Score | None
    if points is not None:
        if points.most <= 0:
            raise UndecidedError(f"`most` in the test's points must be above 0, not {points.most:g}")
        score = Score(points.points / points.most, points.reasons)
    elif kind is None:
        raise UndecidedError(f"there are no scoring rules for the data set {given.title[:80]!r}")
    else:
        score = kind().score(given)

    if score is None:
        raise UndecidedError(f"only a judge can score {given.title}")
    return replace(score, score=min(1.0, max(0.0, score.score)))


# -- the questions that a judge answers

_MOST_SCRIPT = 6_000
"""The most characters of a test's script in the judge's prompt."""

_MOST_QUESTIONS = 50
"""The most questions of a test that the judge answers, each with a request of its own."""


def judge_questions(test: FinishedTest) -> list[dict[str, object]]:
    """Return the prompt inputs of each question that the judge must answer to score the test.

    * Each reply is judged against the expected text with its number.
    * If there is one reply and the kind is `judged_in_parts`, each part ("boat or raft") is a question of its own.
    * If there is one reply to several expected texts, it must contain all of them, in one question.

    Empty if the test has no expected text or no reply.
    """
    expected = [_as_text(answer) for answer in test.expected[:_MOST_QUESTIONS]]
    replies = list(test.responses)[:_MOST_QUESTIONS]
    if not replies or not any(expected):
        return []

    if len(replies) == 1 and (kind := shipped_kind(test.title)) is not None and kind.judged_in_parts:
        expected = [" or ".join(map(str, words)) for words in test.expected if isinstance(words, list)]
        replies *= len(expected)
    elif len(replies) == 1 and len(expected) > 1:  # one reply must contain all answers
        expected = ["\n".join(expected)]

    # The judge sees the test's statements, but not its other questions.
    questions = [*test.questions, *[""] * len(expected)]  # a kind may have fewer questions than expected answers
    script = "\n".join(line for line in test.script if line not in test.questions)
    script = script if len(script) <= _MOST_SCRIPT else f"{script[:_MOST_SCRIPT]}…"
    return [
        {"told": script, "question": question, "expected": answer, "response": reply}
        for question, answer, reply in zip(questions, expected, replies, strict=False)
    ]


def combine_verdicts(test: FinishedTest, verdicts: Sequence[Verdict]) -> tuple[Score, dict[str, JSON]]:
    """Combine the judge's verdicts on a test; return the score, which is the share of right answers, and properties.

    The properties are those of the first verdict, with the tokens of all. Unanswered questions count as wrong.
    """
    name = prompt_name(test)
    scores = [float(score) for each in verdicts if isinstance(score := each.get(name), (int, float))]
    # One verdict judged one reply against all expected texts together. Of several, each expected text counts, also
    # those without a reply.
    asked = min(len(test.expected), _MOST_QUESTIONS)
    count = max(len(verdicts), asked if len(verdicts) > 1 else 1)
    reasons = tuple(str(each.get(f"{name}_reason") or "") for each in verdicts)

    properties = [values for each in verdicts if isinstance(values := each.get(f"{name}_properties"), dict)]
    combined: dict[str, JSON] = dict(properties[0]) if properties else {}
    for key in ("input_tokens", "output_tokens"):
        counts = [tokens for values in properties if isinstance(tokens := values.get(key), int)]
        combined |= {key: sum(counts)} if counts else {}

    return Score(sum(scores) / count, reasons), {**combined, "prompt": name}


def _as_text(answer: JSON) -> str:
    """Return an expected answer as text: other values than text as JSON, null as an empty text."""
    if answer is None:
        return ""
    return answer if isinstance(answer, str) else dumps(answer).decode()


def prompt_name(test: FinishedTest) -> str:
    """Return the name of the prompt by which a judge scores a test; tests of unknown kinds have the default prompt."""
    return (shipped_kind(test.title) or Kind).judge_prompt
