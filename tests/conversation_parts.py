"""Shared parts of the tests of conversations: a scripted model server on loopback, a simulator of their own, rows."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tunecheck import CallContext, EvaluationResult, Row, evaluate
from tunecheck.endpoints import Endpoint, load_endpoint
from tunecheck.episodes import ConversationTarget

Values = dict[str, Any]
Answer = Any
"""A text, None, or calls: a list of `(name, arguments)`, arguments as a dict or as the text that is sent.

In a pair with an HTTP status, which is 200 otherwise.
"""

SHELF = '''
"""A simulator of a shelf, as a user would write one."""

from tunecheck.simulators import Simulator, SimulatorError, tool


class Shelf(Simulator):
    """Things on a shelf."""

    def load(self, config, *, long_context=None):
        self.things = dict(config.get("things", {}))
        self._looks = 0

    def state(self):
        return {"things": self.things}

    @tool
    def put(self, name: str, count: int = 1) -> dict[str, int]:
        """Put things on the shelf.

        Args:
            name: What.
            count: How many.
        """
        self.things[name] = self.things.get(name, 0) + count
        return {name: self.things[name]}

    @tool
    def count(self, name: str) -> int:
        """How many of a thing there are."""
        return self.things.get(name, 0)

    @tool
    def look(self) -> list[str]:
        """What is on the shelf."""
        return list(self.things)

    @tool
    def take(self, name: str) -> str:
        """Take a thing."""
        if not self.things.get(name):
            raise SimulatorError(f"there is no {name}")
        self.things[name] -= 1
        return name
'''


def shelf_workspace(folder: Path) -> Path:
    """A workspace with the simulator `Shelf` in it."""
    (folder / "simulators").mkdir(parents=True, exist_ok=True)
    (folder / "simulators" / "Shelf.py").write_text(SHELF, "utf-8")
    return folder


def said(*texts: str) -> list[list[Values]]:
    """Turns of one user message each; an empty text is a turn without one."""
    return [[{"role": "user", "content": text}] if text else [] for text in texts]


def shelf_row(turns: Sequence[Sequence[Values]] | None = None, **columns: Any) -> Row:
    values = {
        "id": "shelf_0",
        "turns": turns or said("Put two cups on the shelf.", "How many cups are there?"),
        "involved_classes": ["Shelf"],
        "initial_config": {"Shelf": {"things": {"book": 1}}},
        "ground_truth": [["put(name='cup', count=2)"], ["count(name='cup')"]],
        **columns,
    }
    return Row(0, str(values["id"]), values, "fingerprint")


def context(run: str = "run", row: str = "shelf_0") -> CallContext:
    return CallContext(run, row, "hash")


class Server:
    """Answers chat completions with what `reply` makes of each request, and remembers the requests and their keys."""

    def __init__(self, reply: Callable[[Values], Answer]) -> None:
        self.requests: list[Values] = []
        self.keys: list[str] = []
        self._reply = reply
        server = self

        class Handler(BaseHTTPRequestHandler):
            wbufsize = 1 << 16  # head and body leave together: apart, each answer waits 40 ms for its acknowledgement
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.requests.append(body)
                server.keys.append(self.headers["idempotency-key"])
                reply = server._reply(body)
                status, answer = reply if isinstance(reply, tuple) else (200, reply)
                found = completion(answer, len(server.requests))
                raw = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def endpoint(self, **more: Any) -> Endpoint:
        return load_endpoint({"kind": "openai", "url": self.url, "model": "m", "auth": {"type": "none"}, **more})

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def serving(answers: Sequence[Answer] | Callable[[Values], Answer]) -> Iterator[Server]:
    """A server that gives these answers one after another, then `done`; or what a function makes of a request."""
    left = None if callable(answers) else list(answers)
    server = Server(answers if callable(answers) else lambda _: left.pop(0) if left else "done")
    try:
        yield server
    finally:
        server.close()


def completion(answer: Answer, number: int) -> Any:
    """A chat completion that holds an answer; a whole completion and bytes pass unchanged."""
    if isinstance(answer, bytes) or (isinstance(answer, dict) and "choices" in answer):
        return answer
    message: Values = {"role": "assistant", "content": None}
    if isinstance(answer, list):
        message["tool_calls"] = [
            call(name, arguments, f"call_{number}_{at}") for at, (name, arguments) in enumerate(answer)
        ]
    else:
        message["content"] = answer
    reason = "tool_calls" if isinstance(answer, list) else "stop"
    return {
        "id": f"answer-{number}",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10 * number, "completion_tokens": number},
    }


def call(name: str, arguments: Any, id_: str) -> Values:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}


async def had(
    answers: Sequence[Answer] | Callable[[Values], Answer],
    row: Row | None = None,
    definition: Values | None = None,
    **options: Any,
) -> tuple[Values, Server]:
    """The output of a conversation with a server that gives these answers, and the server."""
    with serving(answers) as server:
        target = ConversationTarget(server.endpoint(retries=0, **(definition or {})), **options)
        try:
            output = dict(await target.answer(row or shelf_row(), context()))
        finally:
            await target.close()
        return output, server


def evaluated(data: Any, target: Any, **options: Any) -> EvaluationResult:
    """Evaluate the number of steps of each conversation."""

    def steps(result: list[Any]) -> dict[str, int]:
        return {"steps": sum(len(turn) for turn in result)}

    return evaluate(data=data, target=target, evaluators={"steps": steps}, workers=0, **options)


def log_items(output: Values, role: str) -> list[Values]:
    """The items of a role in the steps of an inference log, in order."""
    steps = [
        item
        for entry in output["inference_log"]
        if isinstance(entry, dict)
        for name, items in entry.items()
        if name.startswith("step_")
        for item in items
    ]
    return [item for item in steps if item["role"] == role]


def states(output: Values) -> list[Values]:
    """The simulators' states in an inference log: one dict by class name for each time they were noted."""
    return [
        {item["class_name"]: item["content"] for item in entry}
        for entry in output["inference_log"]
        if isinstance(entry, list)
    ]
