"""A small MCP server, of shelves with books, over standard input and output or HTTP; each session begins empty.

Run as a program, it takes a folder for the books, and their form: `files` (nowhere else), `memory` (they are read
when it begins, and written), or `untold` (as `files`, and no tool tells of them).
"""

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

READS, ADDS = {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": False}


def tool(name: str, description: str, properties: dict[str, Any], annotations: dict[str, bool]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": annotations}


TITLE = {"type": "string", "description": "Its title, as 'Emma', 'Walden' or 'Ivanhoe'."}
TOOLS = [
    tool("add-book", "Add a book to the shelf.", {"title": TITLE}, ADDS),
    tool("lend_book", "Lend a book.", {"title": TITLE, "reader": {"type": "string"}}, {"destructiveHint": True}),
    tool("list_books", "List the books.", {}, READS),
    tool("tell_key", "Tell the key of the shop.", {}, READS),
]


class Shelf:
    """One session's books: title to reader, None while it stands on the shelf; kept in a file if there is one."""

    def __init__(self, file: Path | None = None, kept: str = "memory", version: str = "2025-06-18") -> None:
        self.version = version
        self.books: dict[str, str | None] = {}
        self.file, self.kept = file, kept
        self.tools = [tool for tool in TOOLS if kept != "untold" or tool["name"] != "list_books"]

    def reply(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if "id" not in message:
            return None
        method, params = message["method"], message.get("params", {})
        result: dict[str, Any] = {"protocolVersion": self.version, "capabilities": {}, "serverInfo": {"name": "shelf"}}
        if method == "tools/list":  # in two pages
            cursor = params.get("cursor")
            result = {"tools": self.tools[2:]} if cursor else {"tools": self.tools[:2], "nextCursor": "2"}
        elif method == "tools/call":
            if self.file is not None and self.kept != "memory":
                self.books = json.loads(self.file.read_text()) if self.file.exists() else {}
            value, failed = self.call(params["name"], **params["arguments"])
            if self.file is not None and self.books:
                self.file.write_text(json.dumps(self.books))
            result = {"content": [{"type": "text", "text": json.dumps(value, ensure_ascii=False)}], "isError": failed}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def call(self, name: str, title: str = "", reader: str = "") -> tuple[Any, bool]:
        if name == "list_books":
            return {"books": self.books}, False
        if name == "tell_key":
            return {"key": os.environ.get("SHOP_API_KEY", "")}, False
        if name == "tell_folder":
            folder = sys.argv[1]
            is_here = title.startswith(folder) and Path(folder).resolve() == Path.cwd()
            return {
                "folder": folder,
                "is_here": is_here,
                "asked": title,
                "holds": [*map(str, Path(folder).iterdir())],
            }, False
        if name == "add-book":
            self.books.setdefault(title, None)
            return {"added": title}, False
        if self.books.get(title, "") is not None:
            return f"{title} is not on the shelf", True
        self.books[title] = reader
        return {"lent": title, "to": reader}, False


@contextmanager
def served(*, keeps: bool = False, version: str = "2025-06-18", ended: list[str] | None = None) -> Iterator[str]:
    """Its URL on loopback; `keeps`: all sessions are about the same shelf. Every other reply is a stream of events.

    After `initialize`, messages that do not name the protocol's `version` are refused. `ended` gets the path and query
    of each session's end.
    """
    sessions: dict[str, Shelf] = {}
    common = Shelf(version=version)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if message["method"] != "initialize" and self.headers.get("MCP-Protocol-Version") != version:
                self.send_error(400)
                return
            session = self.headers.get("Mcp-Session-Id") or str(len(sessions))
            shelf = sessions.setdefault(session, common if keeps else Shelf(version=version))
            reply = shelf.reply(message)
            body = b"" if reply is None else json.dumps(reply, ensure_ascii=False).encode()
            as_events = reply is not None and reply["id"] % 2 == 0
            if as_events:
                body = b'event: message\ndata: {"method": "notifications/progress"}\n\ndata: ' + body + b"\n\n"
            self.send_response(202 if reply is None else 200)
            self.send_header("Content-Type", "text/event-stream" if as_events else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Mcp-Session-Id", session)
            self.end_headers()
            self.wfile.write(body)

        def do_DELETE(self) -> None:
            if ended is not None:
                ended.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()


if __name__ == "__main__":
    own = Shelf(Path(sys.argv[1], "books.json"), sys.argv[2]) if len(sys.argv) > 2 else Shelf()
    for line in sys.stdin:
        answer = own.reply(json.loads(line))
        if answer is not None:
            print(json.dumps(answer), flush=True)
