"""Loads an endpoint by a definition file, a name in endpoints/, or `simulated`; `tunecheck endpoints list`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import clean
from tunecheck._trust import Trust
from tunecheck._yaml import parse_yaml
from tunecheck.cli._console import print_json
from tunecheck.cli._options import DONE, Invocation, command
from tunecheck.cli._shared_options import JsonOptions
from tunecheck.views import Table, View, Words, console, print_view

if TYPE_CHECKING:
    from tunecheck.endpoints._base import Endpoint

SIMULATED = "simulated"

WORKSPACE_SIMULATED = Path("endpoints") / "simulated.yaml"


def is_embedded(name: str) -> bool:
    """Return True if the name means the built-in simulated endpoint, because the workspace defines no other."""
    return name == SIMULATED and not WORKSPACE_SIMULATED.is_file()


def load_named(name: str, trust: Trust, seed: int | None = None) -> Endpoint:
    """Return the endpoint of a definition file or a name; the name `simulated` always exists.

    `trust` is the trust in the source of the name; `seed` replaces the seed of a simulated endpoint.

    Raises:
        ConfigurationError: the definition does not exist, is wrong, or is not trusted.
    """
    from tunecheck.endpoints._definition import load_endpoint, read_definition

    seeded = {} if seed is None else {"seed": seed}
    if is_embedded(name):
        from tunecheck.endpoints._simulated import default_definition

        embedded = parse_yaml(default_definition(), "the embedded simulated endpoint")
        assert isinstance(embedded, dict)
        return load_endpoint({**embedded, **seeded}, name=SIMULATED)
    endpoint = load_endpoint(name, trust=trust)
    if seed is None or endpoint.kind != SIMULATED:
        return endpoint
    definition = read_definition(name)
    return load_endpoint({**definition.data, **seeded}, name=definition.name, workspace=definition.folder)


@command(JsonOptions)
def list_endpoints(options: JsonOptions, invocation: Invocation) -> int:
    """List the endpoints of this workspace, with their kind, model and address."""
    from tunecheck.endpoints._definition import read_definition
    from tunecheck.endpoints._masking import storable_settings

    listed: list[dict[str, JSON]] = []
    for path in sorted(WORKSPACE_SIMULATED.parent.glob("*.y*ml")):
        try:
            data = storable_settings(dict(read_definition(path).data))
            assert isinstance(data, dict)
            model = data.get("model") or data.get("deployment")
            listed.append({"name": path.stem, "kind": data.get("kind"), "model": model, "url": data.get("url")})
        except ConfigurationError as error:
            listed.append({"name": path.stem, "problem": str(error)})
    if is_embedded(SIMULATED):
        listed.append({"name": SIMULATED, "kind": SIMULATED, "model": None, "url": None})
    if options.json:
        print_json([*listed])
        return DONE
    rows = [[Words(clean(value or "", 200), foreign=True) for value in each.values()] for each in listed]
    print_view(View("endpoints", [Table(["name", "kind", "model", "url"], rows, "l")]), console(sys.stdout))
    return DONE
