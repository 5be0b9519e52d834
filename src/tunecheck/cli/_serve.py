"""`tunecheck serve`: a local server with a model's answers, or an agent with a memory, for trying things out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tunecheck._messages import clean
from tunecheck.cli._parameters import Debug

if TYPE_CHECKING:
    from tunecheck.endpoints._serving.agent import ServedAgent
    from tunecheck.endpoints._serving.middleware import Served
    from tunecheck.endpoints._serving.sources import AnswerSource

SIMULATED = "SIMULATED answers"

ReplayFile = Annotated[
    str | None,
    typer.Option("--replay", metavar="FILE", help="Recorded answers: JSON Lines with messages (or id) and response."),
]
SimulatedData = Annotated[
    str | None,
    typer.Option("--simulated", metavar="DATASET", help="The simulated model, answering the rows of this data set."),
]
ScriptFile = Annotated[
    str | None,
    typer.Option("--script", metavar="FILE", help="Scripted answers: a YAML file of rules (docs/endpoints.md)."),
]
MemoryAgent = Annotated[
    bool,
    typer.Option("--memory-agent", help="A small agent with its own memory: /reply, /reset, /advance."),
]
IdsOf = Annotated[
    str | None,
    typer.Option("--dataset", metavar="DATASET", help="With --replay: the data set whose row ids FILE goes by."),
]
Host = Annotated[str, typer.Option("--host", metavar="HOST", help="Others can reach it only with a key.")]
Port = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65_535, help="0: any free one.")]
KeyEnv = Annotated[
    str | None,
    typer.Option("--key-env", metavar="NAME", help="Ask for the key that this environment variable holds."),
]
Latency = Annotated[float, typer.Option("--latency-ms", metavar="MS", min=0, help="Wait before each answer.")]
FaultRates = Annotated[
    list[str] | None,
    typer.Option("--fault", metavar="STATUS=RATE", help="Fail so often on purpose, e.g. 429=0.05 (repeatable)."),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", min=0, help="Of the simulated model and the faults.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No line for each request.")]


def serve(
    replay: ReplayFile = None,
    simulated: SimulatedData = None,
    script: ScriptFile = None,
    memory_agent: MemoryAgent = False,
    dataset: IdsOf = None,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    key_env: KeyEnv = None,
    latency_ms: Latency = 0.0,
    fault: FaultRates = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Serve answers as an Azure ML endpoint (/score) and as chat completions (/v1/chat/completions), until Ctrl-C.

    With --memory-agent it is an agent with a memory of its own instead (docs/memory-agents.md).
    """
    from tunecheck.endpoints._serving.middleware import parse_faults
    from tunecheck.endpoints._serving.server import serve as run

    run(
        _source(replay, simulated, script, memory_agent, dataset, seed),
        host=host,
        port=port,
        key_env=key_env,
        latency_ms=latency_ms,
        faults=parse_faults(fault or []),
        seed=seed or 0,
        on_ready=lambda url: _say_ready(url, _what(replay, script, memory_agent), memory_agent),
        on_request=None if quiet else _log,
    )
    return 0


def _source(
    replay: str | None,
    simulated: str | None,
    script: str | None,
    memory_agent: bool,
    dataset: str | None,
    seed: int | None,
) -> AnswerSource | ServedAgent:
    from tunecheck._errors import ConfigurationError
    from tunecheck.cli._evaluate.answer_source import load_named
    from tunecheck.datasets._reading import open_dataset
    from tunecheck.endpoints._replay import ReplayEndpoint
    from tunecheck.endpoints._serving.note_agent import NoteAgent
    from tunecheck.endpoints._serving.script import ScriptSource
    from tunecheck.endpoints._serving.sources import EndpointSource

    if [replay, simulated, script, memory_agent or None].count(None) != 3:
        raise ConfigurationError(
            "say what to serve: --replay FILE, or --simulated DATASET, or --script FILE, or --memory-agent"
        )
    if dataset is not None and replay is None:
        raise ConfigurationError("--dataset says which rows the ids of --replay are: leave it out")
    if memory_agent:
        return NoteAgent()
    if script is not None:
        return ScriptSource.read(script)
    if simulated is not None:
        return EndpointSource(load_named("simulated", seed), open_dataset(simulated).rows())
    assert replay is not None
    return EndpointSource(ReplayEndpoint(replay), open_dataset(dataset).rows() if dataset is not None else None)


def _what(replay: str | None, script: str | None, memory_agent: bool) -> str:
    if memory_agent:
        return "an agent with a memory"
    if replay is not None:
        return f"answers of {replay}"
    return SIMULATED if script is None else f"{SIMULATED} by the script {script}"


def _say_ready(url: str, what: str, memory_agent: bool) -> None:
    paths = "/reply, /reset, /advance" if memory_agent else "/score, /v1/chat/completions"
    print(f"serving {clean(what)} on {url} (POST {paths}); Ctrl-C ends it", flush=True)


def _log(served: Served) -> None:
    again = " (repeated)" if served.repeated else ""
    line = f"{served.method} {clean(served.path, 200)} {served.status} {served.duration_ms:.0f} ms{again}"
    print(line, file=sys.stderr)
