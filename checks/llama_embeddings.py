"""Run by tests in an environment of its own: llama.cpp's server giving embeddings by a tiny random model.

python llama_embeddings.py MODEL.gguf PORT KEY
"""

from __future__ import annotations

import sys
from pathlib import Path

import xllamacpp

from llama_server import parameters, serve, write_model  # type: ignore[import-not-found]  # beside this script


def main() -> None:
    """Write the model and serve it until the process is ended."""
    model, port, key = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    write_model(model)
    params = parameters(model, port, key)
    params.n_parallel = 1  # with two, a text's vector depends on the other texts in flight
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    serve(params)


if __name__ == "__main__":
    main()
