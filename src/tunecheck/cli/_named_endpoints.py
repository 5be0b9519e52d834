"""Load an endpoint by a definition file, a name in endpoints/, or `simulated`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._trust import Trust

if TYPE_CHECKING:
    from tunecheck.endpoints._base import Endpoint

SIMULATED = "simulated"

WORKSPACE_SIMULATED = Path("endpoints") / "simulated.yaml"


def is_embedded(name: str) -> bool:
    """Return True if the name refers to the built-in simulated endpoint: the workspace defines none."""
    return name == SIMULATED and not WORKSPACE_SIMULATED.is_file()


def load_named(name: str, trust: Trust, seed: int | None = None) -> Endpoint:
    """Load the endpoint of a definition file or name; `simulated` always exists.

    `trust` says who names the endpoint; `seed` replaces the seed of a simulated endpoint.
    """
    from tunecheck.endpoints._definition import load_endpoint, read_definition

    seeded = {} if seed is None else {"seed": seed}
    if is_embedded(name):
        from tunecheck import _yaml as yamltext
        from tunecheck.endpoints._simulated import default_definition

        embedded = yamltext.parse_yaml(default_definition(), "the embedded simulated endpoint")
        assert isinstance(embedded, dict)
        return load_endpoint({**embedded, **seeded}, name=SIMULATED)
    endpoint = load_endpoint(name, trust=trust)
    if seed is None or endpoint.kind != SIMULATED:
        return endpoint
    definition = read_definition(name)
    return load_endpoint({**definition.data, **seeded}, name=definition.name, workspace=definition.folder)
