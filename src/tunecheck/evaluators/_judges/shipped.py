"""The judges that come with the package: call_judge, difference, groundedness, relevance.

| judge        | without a model                                           | the model judges                |
|--------------|-----------------------------------------------------------|---------------------------------|
| relevance    | –                                                         | all rows                        |
| groundedness | no context: an error                                      | all rows with a context         |
| call_judge   | no calls: not applicable; wrong functions: 0; equal: 1    | right functions with arguments  |
|              |                                                           | that differ                     |
| difference   | no ground truth: an error; equal calls or texts: 1        | all other rows                  |
"""

import abc
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from tunecheck._faults import Fault, Verdict, sentence, to_json
from tunecheck._json import JSON
from tunecheck.calls._model import Reading, canonical_text
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.calls.matching import MatchPolicy, schema_faults
from tunecheck.evaluators._calls import CallComparison, compare_calls
from tunecheck.evaluators._judges.asking import ModelConfig
from tunecheck.evaluators._judges.prompty import PromptyEvaluator, VerdictWithoutModel, defined_tools, input_text
from tunecheck.formats._reading import AUTO
from tunecheck.prompts._loading import shipped_prompt

KINDS = ("function", "argument", "number conversion", "date format", "missing", "extra", "wording")
"""The kinds of differences. A score of 1 contradicts an answer that lists any kind but "wording"."""

_STRICT = MatchPolicy()
_KEYS = ("expected", "actual", "kind", "where")  # of a difference
_MOST_DIFFERENCES = 50  # in a row's verdict
_NOTHING_DIFFERS_FROM = 0.8
"""On the prompt's scale, scores below this mean that something differs."""


class ShippedJudge(PromptyEvaluator):
    """Base of the judges that are part of the package.

    The prompt is `prompty`, else `prompty/<name>.prompty` in the current folder, else the package's own. Further inputs
    of the prompt become parameters of the evaluator. The other arguments are those of `PromptyEvaluator`.
    """

    replaceable_prompt: ClassVar[str]
    """The judge's name: the name of its plug-in, its prompt file, and its metric."""

    def __init__(
        self,
        model_config: ModelConfig | None = None,
        *,
        threshold: float | None = None,
        samples: int | None = None,
        combine: Literal["mean", "majority"] | None = None,
        parameters: Mapping[str, JSON] | None = None,
        prompty: str | os.PathLike[str] | None = None,
    ) -> None:
        """Load the judge's prompt: the given one, else the workspace's, else the package's own."""
        super().__init__(
            shipped_prompt(self.replaceable_prompt, Path("prompty")) if prompty is None else prompty,
            model_config,
            self.replaceable_prompt,
            threshold=threshold,
            samples=samples,
            combine=combine,
            parameters=parameters,
        )


class RelevanceEvaluator(ShippedJudge):
    """Relevance of the response to the query, from 1 (not at all) to 5 (fully, and nothing else).

    Parameters are `query` (a text, or the messages of a conversation), `response` (a text, or calls in any readable
    format) and optional `tool_definitions`, by which unmarked calls are recognised. A row passes from 3 on.
    """

    replaceable_prompt: ClassVar[str] = "relevance"

    def _prepare(
        self, *, query: object, response: object, tool_definitions: object = None, **more: object
    ) -> Mapping[str, object] | VerdictWithoutModel:
        """Return the prompt's inputs, with query and response as text."""
        text = input_text(response, tool_definitions)
        return {"query": input_text(query), "response": text, "tool_definitions": tool_definitions, **more}


class GroundednessEvaluator(ShippedJudge):
    """Support of the response by the context, from 1 (contradicted or made up) to 5 (complete).

    Parameters are `response`, `context` (texts, lists or data), and optional `query` and `tool_definitions`.
    A row passes from 3 on.

    Raises, when called:
        ValueError: there is no context.
    """

    replaceable_prompt: ClassVar[str] = "groundedness"

    def _prepare(
        self,
        *,
        response: object,
        context: object,
        query: object = None,
        tool_definitions: object = None,
        **more: object,
    ) -> Mapping[str, object] | VerdictWithoutModel:
        """Return the prompt's inputs, with response, context and query as text.

        Raises:
            ValueError: there is no context.
        """
        support = input_text(context)
        if not support.strip():
            raise ValueError("there is no context to check the response against: map a column to `context`")

        return {
            "response": input_text(response, tool_definitions),
            "context": support,
            "query": input_text(query),
            "tool_definitions": tool_definitions,
            **more,
        }


class _CallsJudge(ShippedJudge, abc.ABC):
    """A judge of calls that asks a model only if comparing the calls does not decide the row."""

    _provided: ClassVar[frozenset[str]] = frozenset({"matching"})

    def _prepare(
        self,
        *,
        response: object,
        ground_truth: object,
        tool_definitions: object = None,
        query: object = None,
        **more: object,
    ) -> Mapping[str, object] | VerdictWithoutModel:
        """Compare the calls.

        Return the verdict if the comparison decides the row, else the prompt's inputs with the differences.

        Raises:
            ValueError: the ground truth or the tool definitions cannot be read, or a needed ground truth is missing.
        """
        # Strict, because the model judges whether a difference matters.
        comparison = compare_calls(response, ground_truth, tool_definitions, _STRICT, AUTO)
        settled = self._without_model(comparison)
        if settled is not None:
            return settled

        calls = (*comparison.ground_truth.calls, *comparison.response.calls)
        return {
            "response": _calls_or_text(comparison.response, response, tool_definitions),
            "ground_truth": _calls_or_text(comparison.ground_truth, ground_truth, tool_definitions),
            "tool_definitions": defined_tools(ToolDefinitions.read(tool_definitions), calls),
            "query": input_text(query),
            "matching": self._matching(comparison),
            **more,
        }

    @abc.abstractmethod
    def _without_model(self, comparison: CallComparison) -> VerdictWithoutModel | None:
        """Return the verdict if comparing the calls decides the row; None if the model must judge."""

    def _matching(self, comparison: CallComparison) -> str:
        """Return the differences that the comparison found, for the prompt."""
        return sentence(comparison.faults) or ""

    def _settle(self, score: float | None, *, reason: str = "", faults: Sequence[Fault] = ()) -> VerdictWithoutModel:
        """Return the verdict for a score that is decided without the model; the score None means "not applicable".

        The reason lists the faults, if there are any.
        """
        reason = (sentence(faults) if faults else reason) or ""
        return VerdictWithoutModel(self._make_verdict(score, reason, faults))


class CallJudgeEvaluator(_CallsJudge):
    """Passes if the right functions were called with arguments of the same meaning ("NYC" and "New York City").

    Parameters are `response` and `ground_truth` in any readable format, and optional `tool_definitions` and `query`. A
    model judges only arguments that differ. Without a model, equal calls pass and wrong functions fail. A ground truth
    without a call is not applicable, or fails if the response makes a call.

    Raises, when called:
        ValueError: the ground truth or the tool definitions cannot be read.
    """

    replaceable_prompt: ClassVar[str] = "call_judge"

    def _without_model(self, comparison: CallComparison) -> VerdictWithoutModel | None:
        """Return the verdict if the calls are equal, wrong functions are called or no call is expected; else None."""
        if not comparison.expects_call and not comparison.has_call:
            return self._settle(None, reason="the ground truth is not a function call")
        if not comparison.functions_match:  # also if only the response makes a call
            return self._settle(0.0, faults=comparison.function_faults)
        if comparison.arguments_match:
            return self._settle(1.0, reason="the calls are equal; no model was asked")
        return None


class DifferenceEvaluator(_CallsJudge):
    """Describes how a response differs from its ground truth, from 0 (nothing right) to 1 (equivalent).

    Parameters are `response` and `ground_truth`, each text or calls in any readable format, and optional `query` and
    `tool_definitions`. Equal calls (by the strict default of `MatchPolicy`) and equal texts score 1 without a model. In
    addition to a metric's eight keys, `difference_differences` lists the differences: the `expected` and `actual`
    value, the `kind` (one of `KINDS`), and `where`. A row passes from 0.8 on.

    Raises, when called:
        ValueError: the ground truth is missing, or the ground truth or the tool definitions cannot be read.
    """

    replaceable_prompt: ClassVar[str] = "difference"

    def _without_model(self, comparison: CallComparison) -> VerdictWithoutModel | None:
        """Return the verdict if calls or texts are equal; else None, for the model to judge.

        Raises:
            ValueError: there is no ground truth.
        """
        if not comparison.expects_call and not comparison.ground_truth.text.strip():
            raise ValueError("there is no ground truth to compare with: give a call or a text as `ground_truth`")

        if comparison.expects_call:
            equal = "calls" if comparison.arguments_match else None
        else:
            same = comparison.response.text.strip() == comparison.ground_truth.text.strip()
            equal = "texts" if same and not comparison.has_call else None
        if equal is None:
            return None

        settled = self._settle(1.0, reason=f"the {equal} are equal; no model was asked")
        return VerdictWithoutModel({**settled.verdict, "difference_differences": []})

    def _matching(self, comparison: CallComparison) -> str:
        """Return the differences that the comparison of calls found, for the prompt; empty if there are no calls."""
        if not comparison.expects_call and not comparison.has_call:
            return ""
        parts = (sentence(comparison.faults), sentence(schema_faults(comparison.match)))
        return "; ".join(part for part in parts if part)

    def _objection(self, values: Mapping[str, JSON], score: float) -> str | None:
        """Return how the score contradicts the differences listed in the answer's `values`, or None if it fits them."""
        listed = _valid_differences(values)
        # Only a difference in wording may go with a score of 1.
        kind = next((item["kind"] for item in listed if item["kind"] != "wording"), None)
        if kind is not None and score == 1:
            return f"the score is 1, and yet a difference of kind {kind!r} is listed"

        if values.get("differences") == [] and score < _NOTHING_DIFFERS_FROM:
            return f"the score is {score:g}, and yet no difference is listed"
        return None

    def _finish(self, judged: Verdict, values: Mapping[str, JSON]) -> Verdict:
        """Move the differences in the answer's `values` to a key of the verdict; for a failed row, also add faults."""
        # A user's prompt may list further keys, which are left out.
        kept = [{key: item[key] for key in _KEYS} for item in _valid_differences(values)[:_MOST_DIFFERENCES]]

        properties = judged["difference_properties"]
        assert isinstance(properties, dict)
        properties.pop("differences", None)
        if kept and judged["difference_passed"] is False:
            properties["faults"] = to_json(map(_fault, kept))

        return {**judged, "difference_differences": [*kept]}


def _valid_differences(values: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    """Return the differences in an answer that have all keys and a known kind.

    They are checked here because a user's prompt may describe the list otherwise, or not at all.
    """
    listed = values.get("differences")
    items = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    return [item for item in items if item.get("kind") in KINDS and all(key in item for key in _KEYS)]


def _calls_or_text(reading: Reading, value: object, tool_definitions: object) -> str:
    """Return a row's response or ground truth as text for the prompt.

    The text contains the calls of its `reading`, else the `value` as text with a remark on an unreadable call. It is
    "(nothing)" if both are empty.
    """
    if reading.complete_calls:
        return canonical_text(reading.calls)

    text = input_text(value, tool_definitions)
    if reading.problem is not None:
        return f"{text}\n(It looks like a function call and cannot be read as one: {reading.problem})"
    return text if text.strip() else "(nothing)"


def _fault(difference: Mapping[str, JSON]) -> Fault:
    """Return the fault for one of the differences that the judge listed."""
    where = difference["where"]
    return Fault(
        code=f"judged.{str(difference['kind']).replace(' ', '_')}",
        path=where if isinstance(where, str) and where else None,
        expected=difference["expected"],
        actual=difference["actual"],
    )
