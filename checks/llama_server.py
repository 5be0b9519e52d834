"""Run by tests in an environment of its own: llama.cpp's server over a tiny random model, which is written first.

python llama_server.py MODEL.gguf PORT KEY
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

WIDTH, HEADS, LAYERS, HIDDEN, CONTEXT = 64, 4, 2, 128, 4096


def tokens() -> tuple[list[str], list[gguf.TokenType]]:
    """Three control tokens, the 256 bytes, and printable ASCII a character each: enough for any text."""
    kinds = gguf.TokenType
    printable = [*(chr(code) for code in range(33, 127)), "\u2581"]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *printable]
    sorts = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256, *[kinds.NORMAL] * len(printable)]
    return pieces, sorts


def write_model(path: Path) -> None:
    """A Llama of two layers with random weights, half a megabyte."""
    rng = np.random.default_rng(7)
    pieces, sorts = tokens()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([0.0] * len(pieces))
    writer.add_token_types(sorts)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    for name, shape in shapes(len(pieces)).items():
        values = rng.normal(0, 0.1, shape) if len(shape) > 1 else np.ones(shape)
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The tensors of the model."""
    found: dict[str, tuple[int, ...]] = {
        "token_embd": (vocabulary, WIDTH),
        "output": (vocabulary, WIDTH),
        "output_norm": (WIDTH,),
    }
    for layer in range(LAYERS):
        square = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH))
        wide = dict.fromkeys(("ffn_gate", "ffn_up"), (HIDDEN, WIDTH))
        norms = dict.fromkeys(("attn_norm", "ffn_norm"), (WIDTH,))
        for name, shape in {**square, **norms, **wide, "ffn_down": (WIDTH, HIDDEN)}.items():
            found[f"blk.{layer}.{name}"] = shape
    return found


def parameters(model: Path, port: int, key: str) -> xllamacpp.CommonParams:
    """The parameters of llama.cpp's own HTTP server, on loopback."""
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.api_keys = [key]
    params.n_ctx = CONTEXT
    params.n_parallel = 2
    params.warmup = False
    return params


def serve(params: xllamacpp.CommonParams) -> None:
    """Serve until the process is ended, and print the address."""
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    threading.Event().wait()


def main() -> None:
    """Write the model and serve it until the process is ended."""
    model, port, key = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    write_model(model)
    serve(parameters(model, port, key))


if __name__ == "__main__":
    main()
