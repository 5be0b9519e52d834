"""A server of scripted answers as a process of its own: what tests put in a model's place."""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.conftest import ROOT
from tests.scripted_rules import ScriptedServer, ScriptSource, read_script

from tunecheck_serve import ServerOptions, key_from, parse_faults, run_server

__all__ = ["main", "scripted_command"]


def scripted_command(script: object, *options: str) -> list[str]:
    """The command that serves a script on a free port, and prints its address."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.scripted_server import main; main()"
    return [sys.executable, "-c", code, str(script), *options]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("script")
    parser.add_argument("--key-env")
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--fault", action="append", default=[])
    given = parser.parse_args()
    options = ServerOptions(key=key_from(given.key_env), latency_ms=given.latency_ms, faults=parse_faults(given.fault))
    server = ScriptedServer(ScriptSource(read_script(given.script)))
    asyncio.run(run_server(server, options, port=0, on_ready=lambda url: print(url, flush=True)))
