"""`tunecheck serve`: a local server with a model's answers, or an agent with a memory, for trying things out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean
from tunecheck._trust import Trust
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import CommandOptions, command, flag, option

if TYPE_CHECKING:
    from tunecheck.endpoints._base import Endpoint
    from tunecheck.endpoints._serving.agent import ServedAgent
    from tunecheck.endpoints._serving.middleware import Served
    from tunecheck.endpoints._serving.sources import AnswerSource


@dataclass(frozen=True, kw_only=True)
class ServeOptions(CommandOptions):
    replay: str | None = option("Recorded answers: JSON Lines with messages (or id) and response.", "FILE")
    simulated: str | None = option("The simulated model, answering the rows of this data set.", "DATASET")
    script: str | None = option("Scripted answers: a YAML file of rules (docs/endpoints.md).", "FILE")
    memory_agent: bool = flag("A small agent with its own memory: /reply, /reset, /advance.")
    dataset: str | None = option("With --replay: the data set whose row ids FILE goes by.", "DATASET")
    host: str = option("Others can reach it only with a key.", "HOST", default="127.0.0.1")
    port: int = option("0: any free one.", "PORT", default=8080, least=0, most=65_535)
    key_env: str | None = option("Ask for the key that this environment variable holds.", "NAME")
    latency_ms: float = option("Wait before each answer.", "MS", default=0.0, least=0)
    fault: list[str] | None = option("Fail so often on purpose, e.g. 429=0.05 (repeatable).", "STATUS=RATE")
    seed: int | None = option("Of the simulated model and the faults.", "N", least=0)
    quiet: bool = flag("No line for each request.")


@command(ServeOptions)
def serve(options: ServeOptions, invocation: Invocation) -> int:
    """Serve answers as an Azure ML endpoint (/score) and as chat completions (/v1/chat/completions), until Ctrl-C.

    With --memory-agent it is an agent with a memory of its own instead (docs/memory-agents.md).
    """
    import asyncio

    from tunecheck.endpoints._serving.middleware import ServerOptions, parse_faults
    from tunecheck.endpoints._serving.server import key_from, run_server

    served = ServerOptions(
        key=key_from(options.key_env),
        latency_ms=options.latency_ms,
        faults=parse_faults(options.fault or []),
        seed=options.seed or 0,
        on_request=None if options.quiet else _log,
    )

    def ready(url: str) -> None:
        paths = "/reply, /reset, /advance" if options.memory_agent else "/score, /v1/chat/completions"
        print(f"serving {clean(_what(options))} on {url} (POST {paths}); Ctrl-C ends it", flush=True)

    asyncio.run(run_server(_source(options), served, host=options.host, port=options.port, on_ready=ready))
    return 0


def _source(options: ServeOptions) -> AnswerSource | ServedAgent:
    from tunecheck.cli._named_endpoints import SIMULATED, WORKSPACE_SIMULATED, load_named
    from tunecheck.endpoints._replay import ReplayEndpoint
    from tunecheck.endpoints._serving.agent import NoteAgent
    from tunecheck.endpoints._serving.script import ScriptSource, read_script
    from tunecheck.endpoints._serving.sources import EndpointSource

    sources = (options.replay, options.simulated, options.script, options.memory_agent or None)
    if sources.count(None) != 3:
        raise ConfigurationError(
            "say what to serve: --replay FILE, or --simulated DATASET, or --script FILE, or --memory-agent"
        )
    if options.dataset is not None and options.replay is None:
        raise ConfigurationError("--dataset says which rows the ids of --replay are: leave it out")
    if options.memory_agent:
        return NoteAgent()
    if options.script is not None:
        return ScriptSource(read_script(options.script))
    if options.simulated is not None:
        endpoint = load_named(SIMULATED, Trust().of(WORKSPACE_SIMULATED), options.seed)
        return _rows(endpoint, options.simulated)
    assert options.replay is not None
    replayed = ReplayEndpoint(options.replay)
    dataset = options.dataset or _bfcl_rows(Path(options.replay))
    return EndpointSource(replayed) if dataset is None else _rows(replayed, dataset)


def _rows(endpoint: Endpoint, dataset: str) -> AnswerSource:
    from tunecheck.conversations._served import RowSource
    from tunecheck.datasets._reading import open_dataset
    from tunecheck.simulators._backend import Backends

    opened = open_dataset(dataset)
    return RowSource(endpoint, opened.rows(), Backends(trust=Trust().of(*opened.files)))


def _bfcl_rows(path: Path) -> str | None:
    """The rows that result files of BFCL answer, as a data set; None where there are no such files."""
    from tunecheck.bfcl._result_files import find_results

    if not (path.is_dir() or path.name.endswith("_result.json")):
        return None
    files = (file for model in find_results(path).models.values() for file in model)
    return f"bfcl:{','.join(dict.fromkeys(file.category.name for file in files))}"


def _what(options: ServeOptions) -> str:
    if options.memory_agent:
        return "an agent with a memory"
    if options.replay is not None:
        return f"answers of {options.replay}"
    return "SIMULATED answers" + ("" if options.script is None else f" by the script {options.script}")


def _log(served: Served) -> None:
    again = " (repeated)" if served.repeated else ""
    line = f"{served.method} {clean(served.path, 200)} {served.status} {served.duration_ms:.0f} ms{again}"
    print(line, file=sys.stderr)
