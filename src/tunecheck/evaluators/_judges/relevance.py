"""Whether a response answers its question: `RelevanceEvaluator`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tunecheck.evaluators._judges.prompty import Settled
from tunecheck.evaluators._judges.shipped import ShippedJudge
from tunecheck.evaluators._judges.texts import shown


class RelevanceEvaluator(ShippedJudge):
    """How well the response answers what was asked, from 1 (not at all) to 5 (fully, and nothing beside it).

    Called with `query` (a text, or the messages of a conversation) and `response` (a text, or calls in any readable
    format). A row passes from 3 on.
    """

    replaceable_prompt: ClassVar[str] = "relevance"
    _provided: ClassVar[frozenset[str]] = frozenset({"query", "response"})

    def _prepare(self, *, query: object, response: object, **more: object) -> Mapping[str, object] | Settled:
        return {"query": shown(query), "response": shown(response), **more}
