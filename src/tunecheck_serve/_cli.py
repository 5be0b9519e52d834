"""`tunecheck serve`: a local server with a model's answers or with a plug-in's service, for tests and trials."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

import tunecheck_serve as local  # its names load on first use
from tunecheck import ConfigurationError, PluginError
from tunecheck.cli import CommandOptions, Invocation, command, flag, option
from tunecheck.plugins import JSON, Trust, clean, find

if TYPE_CHECKING:
    from tunecheck.endpoints import Endpoint


class ServeOptions(CommandOptions):
    replay: str | None = option("File of recorded answers: JSON Lines with messages (or id) and response.", "FILE")
    simulated: str | None = option("Answer the rows of this data set with the simulated model.", "DATASET")
    service: str | None = option("Run a plug-in's service, such as memory-agent (docs/memory-agents.md).", "NAME")
    evaluator: str | None = option("Serve this evaluator at /evaluate, for Azure AI Foundry (docs/foundry.md).", "NAME")
    set: dict[str, JSON] | None = option(
        "With --evaluator: a parameter of the evaluator, e.g. bleu.threshold=0.4 (repeatable).", "E.PARAMETER=VALUE"
    )
    judge: str | None = option("With --evaluator: the model of an LLM judge.", "FILE")
    dataset: str | None = option("With --replay: the data set that the ids in FILE belong to.", "DATASET")
    host: str = option("Address to listen on; non-loopback addresses need --key-env.", "HOST", default="127.0.0.1")
    port: int = option("Port to listen on; 0 takes any free port.", "PORT", default=8080, least=0, most=65_535)
    key_env: str | None = option("Require the key in this environment variable.", "NAME")
    latency_ms: float = option("Milliseconds to wait before each answer.", "MS", default=0.0, least=0)
    seed: int | None = option("With --simulated: seed of the simulated model (default: its own).", "N", least=0)
    quiet: bool = flag("Do not print a line for each request.")


@command(ServeOptions)
def serve(options: ServeOptions, invocation: Invocation) -> int:
    """Serve answers as an Azure ML endpoint (/score) and as chat completions (/v1/chat/completions), until Ctrl-C.

    Give one of --replay, --simulated, --service and --evaluator. --service runs a plug-in's service instead of a model.
    --evaluator scores rows for endpoint-based evaluators of Azure AI Foundry.
    """
    import asyncio

    served = local.ServerOptions(
        key=local.key_from(options.key_env),
        latency_ms=options.latency_ms,
        log=None if options.quiet else functools.partial(print, file=sys.stderr),
    )

    service = _service(options)

    def ready(url: str) -> None:
        print(f"serving {clean(service.about)} on {url} (POST {service.paths}); Ctrl-C stops the server", flush=True)

    asyncio.run(local.run_server(service, served, host=options.host, port=options.port, on_ready=ready))
    return 0


def _service(options: ServeOptions) -> local.Service:
    """Return the service that the options name, or raise ConfigurationError unless they name exactly one.

    For `--simulated`, the workspace's `endpoints/simulated.yaml` replaces the built-in endpoint, and needs trust.
    """
    from tunecheck.cli import SIMULATED, WORKSPACE_SIMULATED, load_named
    from tunecheck.endpoints import load_endpoint

    sources = (options.replay, options.simulated, options.service, options.evaluator)
    if sources.count(None) != len(sources) - 1:  # not exactly one is given
        raise ConfigurationError("give one of --replay FILE, --simulated DATASET, --service NAME and --evaluator NAME")

    if options.dataset is not None and options.replay is None:
        raise ConfigurationError("--dataset works only with --replay; leave out --dataset, or add --replay FILE")

    if options.evaluator is not None:
        return _evaluator(options, options.evaluator)
    if options.set or options.judge:
        raise ConfigurationError("--set and --judge work only with --evaluator; leave them out, or serve an evaluator")

    if options.service is not None:
        service = find("services", options.service)
        if not (isinstance(service, type) and issubclass(service, local.Service)):
            raise PluginError(f"the service {options.service!r} must be a subclass of tunecheck_serve.Service")
        return service()

    if options.simulated is not None:
        # The workspace may define its own endpoint `simulated` in a file, which needs trust.
        endpoint = load_named(SIMULATED, Trust().of(WORKSPACE_SIMULATED), options.seed)
        return local.ModelServer(_rows(endpoint, options.simulated), "SIMULATED answers")

    assert options.replay is not None
    replayed = load_endpoint({"kind": "replay", "path": options.replay})
    source = replayed if options.dataset is None else _rows(replayed, options.dataset)
    return local.ModelServer(source, f"answers of {options.replay}")


def _evaluator(options: ServeOptions, name: str) -> local.Service:
    """Return a service with the evaluator, created with the parameters of --set and the model of --judge."""
    from tunecheck.cli import load_named, make_evaluators, settings_by_evaluator

    judge = None if options.judge is None else load_named(options.judge, Trust())
    evaluators = make_evaluators([name], settings_by_evaluator(options.set or {}, [name]), judge, Trust())
    return local.ServedEvaluator(name, evaluators[name])


def _rows(endpoint: Endpoint, dataset: str) -> local.ChatSource:
    """Return the endpoint's answers to the rows of a data set. Simulators load only if its files are trusted."""
    from tunecheck.datasets import open_dataset
    from tunecheck.simulators import Backends

    opened = open_dataset(dataset)
    return local.RowAnswers(endpoint, opened.rows(), Backends(trust=Trust().of(*opened.files)))
