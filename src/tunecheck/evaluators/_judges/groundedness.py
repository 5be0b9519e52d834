"""Whether a response says only what its context supports: `GroundednessEvaluator`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tunecheck.evaluators._judges.prompty import Settled
from tunecheck.evaluators._judges.shipped import ShippedJudge
from tunecheck.evaluators._judges.texts import shown


class GroundednessEvaluator(ShippedJudge):
    """How far the context supports what the response says, from 1 (contradicted or made up) to 5 (all of it).

    Called with `response`, `context` (texts, lists or data) and, where there is one, `query`. A row passes from 3 on.

    Raises, when called:
        ValueError: there is no context.
    """

    replaceable_prompt: ClassVar[str] = "groundedness"
    _provided: ClassVar[frozenset[str]] = frozenset({"response", "context", "query"})

    def _prepare(
        self, *, response: object, context: object, query: object = None, **more: object
    ) -> Mapping[str, object] | Settled:
        support = shown(context)
        if not support.strip():
            raise ValueError("there is no context that could support the response")
        return {"response": shown(response), "context": support, "query": shown(query), **more}
