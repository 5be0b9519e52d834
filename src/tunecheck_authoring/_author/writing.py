"""Let a model reword requests, and set aside rows that a second model solves with other calls.

The writer chooses no calls: it gets a correct plain request and says it in the words of a persona. Its words are used
only if they contain every value. The solver gets the words and the tools, but not the expected calls; if it makes other
calls, the words may ask for something else.

A turn keeps its plain request in these cases, in this order: the writer wrote nothing, refused, or wrote a call; a
value is missing; the words are too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import cast

import msgspec

import tunecheck
from tunecheck import ConfigurationError, RunError
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON, Trust, read_as, read_yaml, refuses
from tunecheck.runs import list_runs
from tunecheck_authoring._author.files import AuthoredTask, Line, Weakness, write_rows
from tunecheck_authoring._author.wording import mentions_value

_ROOM = 600
"""The words may have twice the characters of the plain request and this many more."""

_INSTRUCTIONS = """\
You write what a user says to an assistant that can call functions. You get a request in plain words, and who the user \
is. Say the same request as this person would, and nothing else.
- Ask for all that the request asks for, in its order, and for nothing more.
- Keep each value exactly as it is written: names, numbers, dates, texts.
- Where the request speaks of something from an earlier answer, speak of it too, and do not make up its value.
- Name no functions, call none, and do not answer the request. Write only what the user says."""


class WritingRequest(msgspec.Struct, frozen=True):
    """One turn to reword: the `prompt` for the writer, the `plain` request, and the values that the words must hold."""

    id: str
    prompt: str
    plain: str
    values: list[JSON]


def read_personas(path: Path) -> dict[str, str]:
    """Read personas by name from a YAML file.

    Raises:
        ConfigurationError: The file cannot be read, or holds no personas.
    """
    document = read_yaml(path)
    personas = read_as(document.value, dict[str, str], document.where)
    if not personas:
        raise ConfigurationError(f"{path} has no personas; write each as `name: description, way of speaking`")
    return personas


def reword_tasks(
    tasks: Sequence[AuthoredTask], personas: Mapping[str, str], seed: int, models: EndpointModels
) -> list[AuthoredTask]:
    """Return the tasks with the words of `models`' writer, each task in the voice of a persona that `seed` draws.

    A turn keeps its plain request if its new words are unusable.
    """
    voices = {task.id: Random(f"{seed} persona {task.id}").choice([*personas]) for task in tasks}
    requests = {task.id: [*_requests(task, personas[voices[task.id]])] for task in tasks}
    written = models.write([each for task_requests in requests.values() for each in task_requests])
    return [_reword(task, voices[task.id], requests[task.id], written) for task in tasks]


def _reword(
    task: AuthoredTask, voice: str, requests: Sequence[WritingRequest], written: Mapping[str, str]
) -> AuthoredTask:
    """Return the task with the writer's words, which `written` has by request id. `voice` is the persona's name.

    A turn with unusable new words keeps its plain request; the task's `plain` has the reason by turn number.
    """
    texts = [written.get(each.id, "").strip() for each in requests]
    problems = [_why_unusable(text, each) for text, each in zip(texts, requests, strict=True)]
    words = [each.plain if why else text for text, each, why in zip(texts, requests, problems, strict=True)]
    plain = {str(at): why for at, why in enumerate(problems) if why}
    return msgspec.structs.replace(task, voice=voice, words=words, plain=plain)


def _requests(task: AuthoredTask, persona: str) -> Iterator[WritingRequest]:
    """Yield a request to reword for each turn of a task, with the values that the new words must contain.

    Values from earlier results are not among them, because the user does not know these.
    """
    for at, plain in enumerate(task.words):
        values = [each.value for call in task.turns[at] for each in call.arguments.values() if each.source is None]
        said_before = "".join(f"\n- {text}" for text in task.words[:at])
        before = f"\n\nWhat the user has asked for before:{said_before}" if at else ""
        prompt = f"The user: {persona}{before}\n\nThe request to say in their words:\n{plain}"
        yield WritingRequest(f"{task.id}-{at + 1}", prompt, plain, values)


def _why_unusable(words: str, request: WritingRequest) -> str | None:
    """Return why the writer's words are unusable, or None.

    Usable words contain all values of the request and no call, and are not too long.
    """
    if not words:
        return "nothing was written"
    if refuses(words):
        return "the writer refused"
    reading = read_calls(words)
    if reading.calls or reading.problem is not None:
        return "the words contain a call"

    if not all(mentions_value(value, words) for value in request.values):
        return "a value is missing"

    return "the words are too long" if len(words) > 2 * len(request.plain) + _ROOM else None


def reject_unsolved(rows: Sequence[Line], models: EndpointModels) -> tuple[list[Line], list[Weakness]]:
    """Return the rows that the solver solved as meant, and a weakness with the reason for each other row."""
    reasons = models.solve(rows)
    return [row for row in rows if row.id not in reasons], [
        Weakness(id=row.id, variant=row.variant, reason="not solved correctly", detail=reasons[row.id])
        for row in rows
        if row.id in reasons
    ]


# -- models

_RUNS = "runs"
"""The folder of the models' runs, in the stages' folder."""
_REASON = "_reason"
"""The end of the columns in which evaluators give reasons."""


@dataclass
class EndpointModels:
    """The writer and the solver. Their runs are journaled in the stages' folder, reused, and share a budget."""

    writer: str
    solver: str
    work: Path
    max_cost: float | None
    trust: Trust
    _spent: float = field(default=0.0, init=False)

    def write(self, requests: Sequence[WritingRequest]) -> Mapping[str, str]:
        """Ask the writer model; return its words by the request's id, without failed requests."""
        rows: list[dict[str, JSON]] = []
        for each in requests:
            messages: JSON = [{"role": "system", "content": _INSTRUCTIONS}, {"role": "user", "content": each.prompt}]
            rows.append({"id": each.id, "messages": messages})

        result = self._run("writer", self.writer, rows)
        texts = {str(row["row_id"]): row.get("outputs.text") for row in _rows_of(result)}
        return {row: text for row, text in texts.items() if isinstance(text, str)}

    def solve(self, rows: Sequence[Line]) -> Mapping[str, str]:
        """Write the rows to `to-solve.jsonl`, ask the solver model, and return the reasons of unsolved rows by id."""
        path = self.work / "to-solve.jsonl"
        write_rows(path, rows, "Rows that the solver model must solve before they join the data set.")
        result = self._run("solver", self.solver, str(path))
        reasons = {str(row["row_id"]): _why_unsolved(row) for row in _rows_of(result)}
        return {row: reason for row, reason in reasons.items() if reason is not None}

    def _run(self, name: str, endpoint: str, data: str | list[dict[str, JSON]]) -> tunecheck.EvaluationResult:
        """Run the writer or the solver with the rest of the budget, and add its cost to what is spent.

        `data` are rows for the writer, or the path of the solver's file, which names its evaluator.

        Raises:
            RunError: the endpoint answered no row.
        """
        # Answers of the last run are reused, so a model is not asked twice for the same row.
        earlier = [run.folder for run in list_runs(self.work / _RUNS) if run.id.startswith(f"{name}-")]
        # The writer runs first, and the solver gets what is left.
        budget = None if self.max_cost is None else max(0.0, self.max_cost - self._spent)

        try:
            result = tunecheck.evaluate(
                data=data,
                target=endpoint,
                evaluators={"length": _length} if isinstance(data, list) else None,  # a run needs an evaluator
                evaluation_name=name,
                results_dir=self.work / _RUNS,
                reuse=earlier[-1] if earlier else None,
                max_cost=budget,
                trust=self.trust,
            )
        # A run without any answer is no run of rejected rows: the key or the address may be wrong.
        except tunecheck.UnansweredError as error:
            first = next(row["error.target"] for row in _rows_of(error.result))
            message = first.get("message") if isinstance(first, dict) else first
            raise RunError(f"the {name} model gave no answer: {message}; correct its endpoint and try again") from None

        costs = (each.get("cost") for each in result.usage.values() if isinstance(each, dict))
        self._spent += sum(cost for cost in costs if isinstance(cost, (int, float)))
        return result


def _rows_of(result: tunecheck.EvaluationResult) -> Iterable[Mapping[str, JSON]]:
    return cast("Iterable[Mapping[str, JSON]]", result["rows"])


def _length(response: object) -> dict[str, int]:
    """Return the number of characters: a run needs an evaluator."""
    return {"characters": len(str(response))}


def _why_unsolved(row: Mapping[str, JSON]) -> str | None:
    """Return the solver's error or the evaluators' reasons against its answer; None if one passes it and none fails."""
    error = row.get("error.target")
    if isinstance(error, dict):
        return f"the solver failed: {error.get('message')}"

    results = [value for key, value in row.items() if key.startswith("outputs.") and key.endswith("_result")]
    if "pass" in results and all(value in ("pass", "not_applicable") for value in results):
        return None

    reasons = [value for key, value in row.items() if key.startswith("outputs.") and key.endswith(_REASON)]
    return "; ".join(str(each) for each in reasons if each) or "no evaluator judged the solver's calls"
