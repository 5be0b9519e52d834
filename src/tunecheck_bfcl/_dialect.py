"""The leaderboard's dialect: its texts, its decoding of answers, and its verdicts on conversations.

The core loads `BfclDialect` for rows of BFCL. `LeaderboardTools` and `LeaderboardText` run conversations;
`LeaderboardCheck` judges them as the leaderboard does.

A conversation fails at the first turn with expected calls for which one of these holds, in this order:

  1. the model made no call in this turn
  2. the simulators' states differ from those after the ground truth's calls
  3. a result of the ground truth's calls in this turn is missing among the model's results so far

Turns without expected calls are not checked, but their calls are executed and change the state. A result that the model
got in an earlier turn counts in each later turn.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

from tunecheck import Row, episodes
from tunecheck.calls import FunctionCall, Reading, tool_name
from tunecheck.datasets import Judging
from tunecheck.endpoints import Completion
from tunecheck.formats import AUTO, Profile, read_python_calls
from tunecheck.plugins import JSON, dumps
from tunecheck.simulators import OperationResult, failure
from tunecheck_bfcl._data import prompts
from tunecheck_bfcl._data.files import find_bfcl, is_bfcl
from tunecheck_bfcl._decoding import decode_step, decode_text_as_bfcl

# A name and an opening bracket after it, with or without white space between them: cd in `cd (folder="a")`.
_NAME_BEFORE_BRACKET = re.compile(r"\b([a-zA-Z_]\w*+)\s*+(?=\()")

# The leaderboard replaces these characters in the names of its objects: of gpt-4.1 it makes gpt_4_1.
_NOT_IN_OBJECT_NAME = re.compile(r"[-./:]")


class BfclWording(episodes.Wording):
    """BFCL's own texts, from the prompts in the user's copy (`read_prompts`)."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def system(self, functions: Sequence[JSON]) -> str:
        """Return the system prompt."""
        return prompts.system_prompt(self._texts, functions)

    def added(self, functions: Sequence[JSON] | None) -> str:
        """Return BFCL's message about added functions. For a prompting model, it contains the functions as Python."""
        if functions is None:
            return prompts.prompt(self._texts, prompts.ADDED_FUNCTIONS)
        return prompts.prompt(self._texts, prompts.ADDED_FUNCTIONS_TEXT).replace("{functions}", repr(list(functions)))

    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        """Return the results of calls as the text of a Python list."""
        pairs = zip(calls, results, strict=True)
        return repr([{"role": "tool", "name": call, "content": result} for call, result in pairs])


class LeaderboardTools(episodes.ToolsDialect):
    """The dialect for tool calls. It records answers unchanged and decodes them with the leaderboard's quirks."""

    refuses_unreadable: ClassVar[bool] = False

    def step(self, completion: Completion) -> JSON:
        """Return the answer in the form of a result file."""
        return episodes.answer_step(completion.text, completion.tool_calls, keep_nothing=True)

    def decode(self, step: JSON) -> Reading:
        """Return the calls of a step as the leaderboard decodes them."""
        return decode_step(step)


class LeaderboardText(episodes.TextDialect):
    """The dialect for calls as text, which converts calls in the profile's format to BFCL's call text.

    Without a profile, it detects other formats, but not if `exact`, and not in Java and JavaScript rows.
    """

    def __init__(
        self, row: Row, offer: episodes.Offer, wording: episodes.Wording, profile: Profile | None, *, exact: bool
    ) -> None:
        """Prepare the dialect for a row; the class describes `profile` and `exact`.

        In Java and JavaScript rows, the values of converted calls become source code.
        """
        super().__init__(offer, wording, profile)
        self._is_java_or_javascript = row.values.get("language") in ("java", "javascript")
        declared = row.values.get("declared")
        documents = declared if isinstance(declared, list) else []
        self._documents = [document for document in documents if isinstance(document, dict)]
        # Java and JavaScript source code is no format of calls that Tunecheck knows.
        self._any_format = not exact and not self._is_java_or_javascript

    def step(self, completion: Completion) -> JSON:
        """Return the answer as call text, as in a result file.

        A text is read in the format of the profile. If there is no profile and any format is allowed, the format of a
        text that BFCL cannot decode is detected.
        """
        form: Profile | str | None = self._profile
        text = completion.text
        if form is None and self._any_format and text and decode_text_as_bfcl(text).problem is not None:
            form = AUTO

        write = self._java_or_javascript_text if self._is_java_or_javascript else episodes.source_text
        return episodes.answer_text(completion, form=form, tools=self._functions, write=write)

    def decode(self, step: JSON) -> Reading:
        """Return the calls of a step as the leaderboard decodes them."""
        return decode_step(step, text_mode=True)

    def _java_or_javascript_text(self, call: FunctionCall) -> str:
        """Return the text of a call to a Java or JavaScript function, with values as source code.

        The types of the parameters come from the row's `declared` documents.
        """
        function = tool_name(call.name)
        documents = (document for document in self._documents if tool_name(str(document.get("name"))) == function)
        types = _parameter_types(next(documents, {}))
        arguments = (f"{name}={_source(value, types.get(name))}" for name, value in call.arguments.items())
        return f"{call.name}({', '.join(arguments)})"


def _parameter_types(document: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the types that a function's document declares, by parameter; a type may be None or missing."""
    parameters = document.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: schema.get("type") for name, schema in properties.items() if isinstance(schema, dict)}


def _source(value: object, kind: object) -> str:
    """Return a value as source code; `kind` is the parameter's declared type.

    A text already is source code, except an unquoted text for a parameter of type String, which gets quotes:
    `new int[]{1}` stays, and the text Rome becomes "Rome". Other values become JSON, such as [1,2].
    """
    lacks_quotes = kind in ("String", "string") and str(value)[:1] not in ('"', "'")
    if isinstance(value, str) and not lacks_quotes:
        return value
    return dumps(value).decode()


class LeaderboardCheck(episodes.StateCheck):
    """A check that judges conversations exactly as the leaderboard does, including error types.

    Turns without expected calls are not checked. A result that the model has got once counts for every later turn.
    """

    strict: ClassVar[bool] = False

    def decode(self, step: object, mode: episodes.CallMode) -> Reading:
        """Return the calls that the leaderboard decodes from a step; in text mode, only a text has calls."""
        if mode == "text" and not isinstance(step, str):
            return Reading()
        return decode_step([step] if isinstance(step, dict) else step, text_mode=mode == "text")

    def verdict(self, given: episodes.Given) -> episodes.RowVerdict:
        """Return the leaderboard's verdict on a conversation: passed, or why its first wrong turn fails.

        A turn fails without a call, with another state than the ground truth's, or if a result is missing.
        """
        of_model = LeaderboardAttempt(self.services, given.truth, role=given.model, named=given.named)
        of_truth = LeaderboardAttempt(self.services, given.truth, role=f"{given.model}_ground_truth")
        results: episodes.Results = Counter()
        # Both sides execute every turn, checked or not, because later turns depend on the state.
        for index, (turn, truth_items) in enumerate(zip(given.turns, given.truth.turns, strict=True)):
            results.update(episodes.made_results(of_model, turn))
            truth_results = of_truth.make_truth(truth_items)

            if not truth_items:
                continue

            wrong = episodes.no_call(turn) or episodes.wrong_state(of_truth, of_model, Judging())
            wrong = wrong or episodes.missing_result(truth_results, results)

            if wrong is not None:
                return replace(wrong, turn=index)
        return episodes.PASSED


class LeaderboardAttempt(episodes.Attempt):
    """The calls of the model or of the ground truth, executed as the leaderboard does it.

    The leaderboard's `execute_multi_turn_func_call` finds each known operation's name before a bracket, puts the name
    of the operation's object in front, and removes white space before the bracket. It does so inside texts, too: a
    tweet `please comment (soon)` is posted as `please x_TwitterAPI_instance.comment(soon)`. The object's name differs
    between the model and the ground truth, so that their states never agree.

    Args:
        services: Starts the simulators.
        truth: The ground truth with the simulators' configuration.
        role: The first part of the objects' names; the row's id follows.
        named: True if the model's calls name all of their arguments, as JSON.
    """

    def __init__(
        self, services: episodes.Services, truth: episodes.GroundTruth, *, role: str, named: bool = True
    ) -> None:
        """Start the side's simulators. The leaderboard's names of their objects begin with `role` and the row's id."""
        super().__init__(services, truth, named=named)
        self._prefix = f"{role}_eval_{truth.id}"

    def make(self, call: FunctionCall) -> OperationResult:
        """Execute a call of the model; return its result, or an error result. Never raises.

        As in the leaderboard, a call is written as source code if a text among its arguments contains a bracket. The
        names of the leaderboard's objects are added, and the changed source code is read as calls again.
        """
        # If the model names its arguments, the base class refuses a call with an unnamed one ("0").
        has_unnamed_argument = self._named and "0" in call.arguments
        if has_unnamed_argument or not any(map(_holds_bracket, call.arguments.values())):
            return super().make(call)

        # Only texts with a bracket can be affected, so other calls take the short way above.
        source = self._add_owners(episodes.source_text(call, ","))
        results = self._make(read_python_calls(source))
        return results[0] if len(results) == 1 else failure("several calls in the place of one")

    def _read(self, item: object) -> Reading:
        """Return the calls of an item of the ground truth, with the leaderboard's object names in its texts."""
        # One bracket is that of the call itself. A second one may be in a text.
        if isinstance(item, str) and item.count("(") > 1:
            return read_python_calls(self._add_owners(item))
        return super()._read(item)

    def _make_read(self, call: FunctionCall) -> OperationResult:
        """Execute a call whose name may begin with the object's name; with another object's name it is unknown."""
        # MODEL_eval_ID_TwitterAPI_instance.comment is the operation comment; without an owner, the name stays.
        owner, _, operation = call.name.rpartition(".")
        if owner and self._owners.get(operation) == owner:
            call = FunctionCall(operation, call.arguments)
        return self.backend.call(call)

    def _add_owners(self, source: str) -> str:
        """Return the source code of calls with the object's name before each operation that a bracket follows."""

        def with_owner(match: re.Match[str]) -> str:
            name = match[1]
            owner = self._owners.get(name)
            return name if owner is None else f"{owner}.{name}"

        return _NAME_BEFORE_BRACKET.sub(with_owner, source)

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        """The name of the leaderboard's object for each operation, such as `MODEL_eval_ID_TwitterAPI_instance`."""
        return {
            operation: _NOT_IN_OBJECT_NAME.sub("_", f"{self._prefix}_{owner}_instance")
            for owner, simulator in self.backend.simulators.items()
            for operation in simulator.operations()
        }


def _holds_bracket(value: object) -> bool:
    """Return True if a text in the value, at any depth, contains an opening bracket."""
    if isinstance(value, str):
        return "(" in value
    if isinstance(value, Mapping):
        return any(map(_holds_bracket, (*value.keys(), *value.values())))
    return isinstance(value, (list, tuple)) and any(map(_holds_bracket, value))


class BfclDialect(episodes.BenchmarkDialect):
    """The dialect for BFCL's conversations, `compat: bfcl`."""

    tools_dialect = LeaderboardTools
    text_dialect = LeaderboardText
    state_check = LeaderboardCheck

    @classmethod
    def owns(cls, category: object, check: object) -> bool:
        """Return True for rows of a data set `bfcl:…`."""
        return is_bfcl(category, check)

    @cached_property
    def wording(self) -> BfclWording:
        """BFCL's own texts."""
        return BfclWording(prompts.read_prompts(self.data))

    def long_context(self) -> Mapping[str, JSON]:
        """Return the constants that pad rows with long context."""
        return prompts.read_long_context(find_bfcl(self.data))
