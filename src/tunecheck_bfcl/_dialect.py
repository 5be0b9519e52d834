"""The leaderboard's dialect: its wording, its reading of answers, its judgement of conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from tunecheck import Row
from tunecheck.calls import FunctionCall, Reading, tool_name
from tunecheck.endpoints import Completion
from tunecheck.episodes import (
    BenchmarkDialect,
    Dialect,
    Offer,
    Services,
    StateCheck,
    TextDialect,
    ToolsDialect,
    Wording,
    answer_step,
    answer_text,
    source_text,
)
from tunecheck.formats import AUTO, Profile
from tunecheck.plugins import JSON, dumps
from tunecheck_bfcl._conversations import LeaderboardCheck
from tunecheck_bfcl._data.categories import is_bfcl
from tunecheck_bfcl._data.constants import read_long_context
from tunecheck_bfcl._data.files import find_bfcl
from tunecheck_bfcl._data.prompts import ADDED_FUNCTIONS, ADDED_FUNCTIONS_TEXT, prompt, read_prompts, system_prompt
from tunecheck_bfcl._decoding import decode_step
from tunecheck_bfcl._text import decode_text_as_bfcl


class BfclDialect(BenchmarkDialect):
    """BFCL's conversations: `compat: bfcl`."""

    @classmethod
    def owns(cls, category: object, check: object) -> bool:
        """Return True for rows as `bfcl:…` gives them."""
        return is_bfcl(category, check)

    def wording(self) -> Wording:
        """Return BFCL's own texts."""
        return self._wording

    @cached_property
    def _wording(self) -> BfclWording:
        return BfclWording(read_prompts(self.data))

    def long_context(self) -> Mapping[str, JSON]:
        """Return the constants that pad rows with long context."""
        return read_long_context(find_bfcl(self.data))

    def tools_dialect(self, offer: Offer, wording: Wording) -> Dialect:
        """Return a conversation with OpenAI tools, exactly as the leaderboard has it."""
        return LeaderboardTools(offer, wording)

    def text_dialect(
        self, row: Row, offer: Offer, wording: Wording, profile: Profile | None, *, exact: bool
    ) -> Dialect:
        """Return a conversation in text; the verdicts are on the calls that the leaderboard's decoder finds."""
        return LeaderboardText(row, offer, wording, profile, exact=exact)

    def state_check(self, services: Services) -> StateCheck:
        """Return the leaderboard's judgement of conversations."""
        return LeaderboardCheck(services)


class LeaderboardTools(ToolsDialect):
    """Tool calls kept to the letter, and decoded with the leaderboard's oddities."""

    refuses_unreadable: ClassVar[bool] = False

    def step(self, completion: Completion) -> JSON:
        """Return the answer as it stands in the result."""
        return answer_step(completion.text, completion.tool_calls, keep_nothing=True)

    def decode(self, step: JSON) -> Reading:
        """Return the calls of a step."""
        return decode_step(step)


class LeaderboardText(TextDialect):
    """Call text as the leaderboard reads it. Unless `exact`, calls in other forms become call text."""

    def __init__(self, row: Row, offer: Offer, wording: Wording, profile: Profile | None, *, exact: bool) -> None:
        super().__init__(offer, wording, profile)
        self._foreign = row.values.get("language") in ("java", "javascript")
        self._declared = row.values.get("declared") or []
        self._any_form = not (exact or self._foreign)

    def step(self, completion: Completion) -> JSON:
        """Return the answer as it stands in the result."""
        form: Profile | str | None = self._profile
        text = completion.text
        if form is None and self._any_form and text and decode_text_as_bfcl(text).problem is not None:
            form = AUTO
        write = self._source_text if self._foreign else source_text
        return answer_text(completion, form=form, tools=self._functions, write=write)

    def decode(self, step: JSON) -> Reading:
        """Return the calls of a step."""
        return decode_step(step, text_mode=True)

    def _source_text(self, call: FunctionCall) -> str:
        """Return the call of a Java or JavaScript function with its values as source."""
        documents = (
            [each for each in self._declared if isinstance(each, dict)] if isinstance(self._declared, list) else []
        )
        own = (each for each in documents if tool_name(str(each.get("name"))) == tool_name(call.name))
        parameters = next(own, {}).get("parameters")
        kinds = parameters.get("properties") if isinstance(parameters, dict) else None
        given = (f"{name}={_source(value, _type_of(name, kinds))}" for name, value in call.arguments.items())
        return f"{call.name}({', '.join(given)})"


def _type_of(name: str, properties: JSON) -> JSON:
    schema = properties.get(name) if isinstance(properties, dict) else None
    return schema.get("type") if isinstance(schema, dict) else None


def _source(value: object, kind: object) -> str:
    """Return a value as source; a text is source already unless its type is text and it has no quotes."""
    plain = kind in ("String", "string") and str(value)[:1] not in ('"', "'")
    return value if isinstance(value, str) and not plain else dumps(value).decode()


class BfclWording(Wording):
    """BFCL's own texts, from the prompts of the user's copy (`read_prompts`)."""

    def __init__(self, prompts: Mapping[str, str]) -> None:
        self._prompts = prompts

    def system(self, functions: Sequence[JSON]) -> str:
        """Return the system prompt."""
        return system_prompt(self._prompts, functions)

    def added(self, functions: Sequence[JSON] | None) -> str:
        """Return BFCL's sentence; before it, for a prompting model, the functions as Python writes them."""
        if functions is None:
            return prompt(self._prompts, ADDED_FUNCTIONS)
        return prompt(self._prompts, ADDED_FUNCTIONS_TEXT).replace("{functions}", repr(list(functions)))

    def results(self, calls: Sequence[str], results: Sequence[str]) -> str:
        """Return the results as Python writes them."""
        said = zip(calls, results, strict=True)
        return repr([{"role": "tool", "name": call, "content": result} for call, result in said])
