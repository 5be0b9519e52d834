"""Runs conversations through BFCL's own loop, inside its environment: cases come on standard input, outputs go out.

    python conversation_reference.py <site-packages with the client `openai`>   < cases.json   > outputs.json

A case is `{"category", "index", "answers", "tools"}`; an answer a text, or a list of `[name, arguments]`.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

requests: list[Any] = []
script: list[Any] = []


class Scripted(BaseHTTPRequestHandler):
    wbufsize = 1 << 16

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        raw = json.dumps(reply(script.pop(0) if script else "done", len(requests))).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def reply(answer: Any, number: int) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": None if isinstance(answer, list) else answer}
    if isinstance(answer, list):
        message["tool_calls"] = [
            {"id": f"call_{number}_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (name, arguments) in enumerate(answer)
        ]
    usage = {"prompt_tokens": 10 * number, "completion_tokens": number, "total_tokens": 11 * number}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": choices, "usage": usage}


def main() -> None:
    cases = json.load(sys.stdin)
    sys.path.append(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ |= {
        "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
        "OPENAI_API_KEY": "x",
        "NO_PROXY": "*",
    }
    with contextlib.redirect_stdout(sys.stderr):
        outputs = [run(number, case) for number, case in enumerate(cases)]
    json.dump(outputs, sys.stdout, default=str)


entries: dict[str, list[Any]] = {}


def run(number: int, case: Any) -> Any:
    from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler  # type: ignore[import-not-found]
    from bfcl_eval.utils import load_dataset_entry  # type: ignore[import-not-found]

    if case["category"] not in entries:
        entries[case["category"]] = load_dataset_entry(case["category"])
    entry = copy.deepcopy(entries[case["category"]][case["index"]])
    requests.clear()
    script[:] = case["answers"]
    # Its simulators are kept by the model's name: each case is a model of its own.
    handler = OpenAICompletionsHandler(f"m{number}", 0.0, f"m{number}", case["tools"])
    result, more = handler.inference(entry, include_input_log=True, exclude_state_log=False)
    return {"result": result, **more, "requests": [dict(request) for request in requests]}


if __name__ == "__main__":
    main()
