"""How evaluators ask models: straight, or in a run through its journal, its cache and its budget."""

from __future__ import annotations

from typing import Protocol

from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint


class ModelCalls(Protocol):
    """Somebody who asks models on an evaluator's behalf."""

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        """Answer one request; equal requests with equal `sample` may share one answer.

        Raises:
            EndpointError: the call failed for good.
            StopRunError: the run must stop: its budget is spent, or every further call would fail in the same way.
        """
        ...


class DirectCalls:
    """Asks the endpoint each time: what an evaluator does that is called outside a run."""

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        """Ask."""
        return await endpoint.complete(request)
