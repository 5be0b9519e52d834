"""Facts about the endpoints' APIs that a run learns, and restores when it is resumed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import ValidationError, to_builtins
from msgspec.structs import replace

from tunecheck._errors import ConfigurationError
from tunecheck._files import RunFile
from tunecheck._json import JSON, converted
from tunecheck._targets import Target
from tunecheck.endpoints._api_facts import ApiFacts
from tunecheck.endpoints._base import Endpoint
from tunecheck.pipeline._scoring import BoundEvaluator
from tunecheck.runs._store import began_here, signed


@dataclass(frozen=True)
class EndpointFacts:
    """Endpoints of a run, by the evaluator's name or as `target`, and the facts known about their APIs."""

    endpoints: Mapping[str, Endpoint]

    @classmethod
    def of(cls, target: Target | None, evaluators: Sequence[BoundEvaluator]) -> EndpointFacts:
        """Return the endpoints of a run's target and evaluators."""
        own = getattr(target, "endpoint", None)
        asked = {"target": own} if isinstance(own, Endpoint) else {}
        return cls(asked | {each.name: each.endpoint for each in evaluators if each.endpoint is not None})

    def check_prices(self, max_cost: float | None) -> None:
        """Check that every price is known if the cost is limited.

        Raises:
            ConfigurationError: A price is unknown.
        """
        asked = self.endpoints
        priced = [endpoint for endpoint in asked.values() if endpoint.price is not None]
        if max_cost is None or len(priced) == len(asked) > 0:
            return
        unknown = [f"{e.name!r}, which {n!r} asks" for n, e in asked.items() if e.price is None and n != "target"]
        if unknown or not priced:
            raise ConfigurationError(
                f"max_cost: unknown price of {unknown[0] if unknown else 'the calls'}: "
                "write `price:` in the endpoint's definition, or give --prices FILE"
            )

    def known(self) -> dict[str, JSON]:
        """Return the known facts by endpoint, as manifests keep them."""
        found = {name: endpoint.facts for name, endpoint in self.endpoints.items() if endpoint.facts != ApiFacts()}
        return {name: to_builtins(facts) for name, facts in found.items()}

    def added_to(self, manifest: RunFile) -> RunFile:
        """Return the manifest with what is known now, so that a resumed run knows it."""
        found = replace(manifest, api=self.known())
        return signed(found) if began_here(manifest) else found

    def recall_from(self, manifest: RunFile) -> None:
        """Restore the facts of this run's earlier part; facts in other people's manifests would change requests."""
        self.recall(manifest.api if began_here(manifest) else {})

    def recall(self, found: Mapping[str, JSON]) -> None:
        """Restore facts by endpoint."""
        for name, endpoint in self.endpoints.items():
            with contextlib.suppress(ValidationError):  # written by another version: it is found out again
                endpoint.facts = converted(found[name], ApiFacts) if name in found else endpoint.facts

    def sentences(self) -> Iterator[str]:
        """Yield the known facts as sentences."""
        for endpoint in self.endpoints.values():
            yield from (f"endpoint {endpoint.name!r}: {sentence}" for sentence in endpoint.facts.sentences())
