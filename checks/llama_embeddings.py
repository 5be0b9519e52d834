"""Run by tests in an environment of its own: llama.cpp's server giving embeddings by a tiny random model.

python llama_embeddings.py MODEL.gguf PORT KEY
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import xllamacpp

from llama_server import CONTEXT, write_model  # type: ignore[import-not-found]  # beside this script


def main() -> None:
    """Write the model and serve it until the process is ended."""
    model, port, key = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    write_model(model)
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.api_keys = [key]
    params.n_ctx = CONTEXT
    params.n_parallel = 1  # with two, a text's vector depends on what is asked for at the same time
    params.warmup = False
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
