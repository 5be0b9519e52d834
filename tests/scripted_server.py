"""A server of scripted answers as a process of its own: what tests put in a model's place."""

import argparse
import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli_parts import ROOT, environment
from tests.scripted_rules import ScriptedServer, ScriptSource, read_script

from tunecheck_serve import ServerOptions, key_from, run_server


@contextmanager
def scripted(script: object, *options: str, **variables: str) -> Iterator[str]:
    """The address of a server that answers by a script."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.scripted_server import main; main()"
    command = [sys.executable, "-c", code, str(script), *options]
    with subprocess.Popen(command, env=environment(**variables), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            found = re.search(r"http://[\d.:]+", server.stdout.readline())
            assert found
            yield found[0]
        finally:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("script")
    parser.add_argument("--key-env")
    parser.add_argument("--latency-ms", type=float, default=0)
    given = parser.parse_args()
    options = ServerOptions(key=key_from(given.key_env), latency_ms=given.latency_ms)
    server = ScriptedServer(ScriptSource(read_script(given.script)))
    asyncio.run(run_server(server, options, port=0, on_ready=lambda url: print(url, flush=True)))
