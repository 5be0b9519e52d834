"""A client of an MCP server: one session, started by a command or at a URL, that lists and calls tools.

Model Context Protocol, revision 2025-06-18: JSON-RPC 2.0 by lines over standard input and output, or over HTTP. The
client implements tools only. The size of answers and the time to wait for them are bounded.

A session sends `initialize`, the notification `notifications/initialized`, and then any number of `tools/list` and
`tools/call`. Answers have the id of the request, other messages are skipped:

    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}
    {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "2"}], "isError": false}}

| what happens | result of `call` |
|---|---|
| `result` with `structuredContent` | that object |
| `result` with texts | the JSON object in the text, a list as `{"result": list}`, or else the text |
| `result` with `isError`, or a JSON-RPC `error` | the text, marked as failed |
| no answer in time, the server ends, the answer is no JSON object or too long | ServerGoneError |
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, cast

from tunecheck import ConfigurationError, __version__
from tunecheck.endpoints import MASK, looks_secret
from tunecheck.plugins import JSON, clean, dumps, value_of

PROTOCOL = "2025-06-18"
FOLDER = "/service"
"""The path of a server's own folder in calls and answers: its real path is new for each session."""

_MOST_BYTES = 4_000_000
"""The largest answer in bytes."""
_MOST_FILE_BYTES = 1_000_000
"""The most bytes of all files in a server's folder together, because each state of a recording contains them."""
_MOST_PAGES = 100
"""The most pages of the list of tools; a server may never stop giving a next page."""
# A name and its value in a command: `TOKEN=abc`, `--api-key abc`, `Authorization: Bearer abc`.
_ASSIGNED = re.compile(
    r"([A-Za-z_][\w-]*)[\"']?[=: ]+(\"[^\"]*\"|'[^']*'|(?:(?:bearer|basic|token) +)?\S+)", re.IGNORECASE
)
# The folder at the beginning of a JSON text: `"/service"` and `"/service/notes.txt"`, but not `"/services"`.
_IN_FOLDER = re.compile(rf'(?<="){FOLDER}(?=[/"])')

Message = dict[str, JSON]


class ServerGoneError(BaseException):
    """The server gave no valid answer: nothing that was made with it can be used.

    This is no `Exception`, because callers of simulators treat exceptions as replies of calls.
    """

    def __init__(self, server: str, reason: str) -> None:
        """Name the server, by its command or URL without secrets, and the reason."""
        super().__init__(f"MCP server {clean(shown_server(server), 200)}: {reason}")


def shown_server(server: str) -> str:
    """Return a server's command or URL for files and errors, without possible secrets.

    A URL loses its user, password, query and fragment. In a command, values of names that look secret are masked.
    """
    if _is_url(server):
        url = urllib.parse.urlsplit(server)
        return urllib.parse.urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, "", ""))

    shown, position = "", 0
    while found := _ASSIGNED.search(server, position):
        is_secret = looks_secret(found[1], found[2])
        end = found.end() if is_secret else found.end(1)  # another name's value may itself be a name with a secret
        shown += server[position : found.end(1)] + (f"={MASK}" if is_secret else "")
        position = end
    return shown + server[position:]


def _is_url(server: str) -> bool:
    return server.startswith(("http://", "https://"))


class McpSession:
    """A session with a server, from its beginning to `close`.

    Args:
        server: The command that starts the server, or its URL.
        time_limit_s: The time limit for the start and for each answer, in seconds.

    Raises:
        ConfigurationError: The command cannot be started.
        ServerGoneError: The server gives no valid answer.
    """

    def __init__(self, server: str, time_limit_s: float) -> None:
        """Start or reach the server and agree on the protocol. If this fails, the server is ended.

        Raises:
            ConfigurationError: the command cannot be started.
            ServerGoneError: the server gives no valid answer.
        """
        self._server, self._time_limit_s, self._sent = server, time_limit_s, 0
        kind: type[_HttpServer | _ServerProcess] = _HttpServer if _is_url(server) else _ServerProcess

        self._transport = kind(server)
        self.folder = self._transport.folder
        """The server's own folder, which is deleted with the session; None if the server is at a URL."""
        try:
            client: JSON = {"name": "tunecheck", "version": __version__}
            params: Message = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
            version = self._request("initialize", params).get("protocolVersion")
            # Over HTTP, all later messages must name the version that the server chose. The client continues with any
            # version: the protocol allows this, and the messages for tools are alike in all versions.
            if isinstance(self._transport, _HttpServer):
                self._transport.headers["MCP-Protocol-Version"] = version if isinstance(version, str) else PROTOCOL
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except BaseException:  # Ctrl-C, too, must not leave the server running
            self.close()
            raise

    def tools(self) -> list[Message]:
        """Return the tools as the server describes them, from at most `_MOST_PAGES` pages."""
        found: list[Message] = []
        cursor: JSON = None
        for _ in range(_MOST_PAGES):
            page = self._request("tools/list", {} if cursor is None else {"cursor": cursor})
            listed = page.get("tools")
            found += [tool for tool in (listed if isinstance(listed, list) else []) if isinstance(tool, dict)]

            cursor = page.get("nextCursor")
            if not cursor:
                break
        return found

    def call(self, name: str, arguments: Mapping[str, JSON]) -> tuple[JSON, bool]:
        """Return a call's answer (a JSON object or text), and True if the server refused the call or it failed.

        Raises:
            ServerGoneError: the server gave no valid answer.
        """
        result = self._request("tools/call", {"name": name, "arguments": dict(arguments)})
        if result.get("isError"):
            return _result_text(result), True

        structured = result.get("structuredContent")
        return (structured if isinstance(structured, dict) else _as_json(_result_text(result))), False

    def close(self) -> None:
        self._transport.close()

    def _request(self, method: str, params: Message) -> Message:
        """Send a request and return its result. If the server refuses a tool call, the result is the tool's error.

        Raises:
            ServerGoneError: there was no valid answer, or the server refused a request other than a tool call.
        """
        self._sent += 1
        answer = self._send({"jsonrpc": "2.0", "id": self._sent, "method": method, "params": params})

        refusal = answer.get("error")
        if isinstance(refusal, dict):
            why = str(refusal.get("message"))
            if method != "tools/call":
                raise ServerGoneError(self._server, f"the request {method} failed: {clean(why, 200)}")
            return {"isError": True, "content": [{"type": "text", "text": why}]}

        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def _send(self, message: Message) -> Message:
        """Send a message and return its answer, which is empty for a notification.

        Raises:
            ServerGoneError: there was no valid answer.
        """
        try:
            return self._transport.send(message, self._time_limit_s) or {}
        except (OSError, ValueError, http.client.HTTPException, queue.Empty) as error:
            late = isinstance(error, (queue.Empty, TimeoutError))
            why = f"no answer within {self._time_limit_s:g} s" if late else str(getattr(error, "strerror", 0) or error)
            advice = "" if isinstance(error, ValueError) else "; check that the server runs"
            reason = clean(f"{why or type(error).__name__}{advice}", 200)
            raise ServerGoneError(self._server, f"the request {message['method']} failed: {reason}") from None


def _result_text(result: Message) -> str:
    """Return the texts of a call's result as one. Other parts, such as images, become their type in brackets."""
    content = result.get("content")
    parts = [part for part in (content if isinstance(content, list) else []) if isinstance(part, dict)]
    return "\n".join(str(part["text"]) if "text" in part else f"[{part.get('type')}]" for part in parts)


def _as_json(text: str) -> JSON:
    """Return the JSON object in a text; a list becomes `{"result": list}`, and any other text is unchanged."""
    value = value_of(text)
    return value if isinstance(value, dict) else {"result": value} if isinstance(value, list) else text


class _ServerProcess:
    """A server started by a command in a new folder. Its process group ends with the session."""

    folder: Path

    def __init__(self, command: str) -> None:
        """Start the command in a new folder (`{folder}` in the command), and a thread that reads its answers.

        Raises:
            ConfigurationError: the command cannot be started.
        """
        # `resolve`, because servers answer with the real path of a temporary folder that is a link.
        self.folder = Path(tempfile.mkdtemp(prefix="tunecheck-mcp-")).resolve()
        folder = str(self.folder)
        try:
            words = [word.replace("{folder}", folder) for word in shlex.split(command)]
            self._process = subprocess.Popen(  # noqa: S603 - the user typed the command
                words,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Child processes, such as those of `npx` or `sh -c`, end with the server's group.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            reason = f"cannot start: {getattr(error, 'strerror', None) or error}; correct the command"
            raise ConfigurationError(f"--mcp {clean(shown_server(command), 200)}: {reason}") from None

        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._receive, name="tunecheck-mcp", daemon=True).start()

    def send(self, message: Message, time_limit_s: float) -> Message | None:
        """Send a message and return the answer to it, or None if it is a notification. Other messages are skipped.

        Raises:
            queue.Empty: there was no answer within the time limit.
            ValueError: the server ended, or its answer is not JSON.
        """
        text = _IN_FOLDER.sub(lambda _: _escape_path(self.folder), dumps(message).decode())

        pipe = cast("IO[bytes]", self._process.stdin)
        with contextlib.suppress(BrokenPipeError):  # the server has ended: the empty line below shows it
            pipe.write(text.encode() + b"\n")
            pipe.flush()

        while "id" in message:  # a notification has no id and gets no answer
            line = self._lines.get(timeout=time_limit_s)
            if not line:
                self._lines.put(line)  # the next message finds the end, too
                raise ValueError(f"the server stopped, or its answer exceeds {_MOST_BYTES:,} bytes; run it in a shell")
            # Each session has another folder, so answers get one name for it and can be recorded.
            answer = _as_object(line.decode("utf-8", "replace").replace(_escape_path(self.folder), FOLDER))
            # Servers also send notifications, and requests of their own, which have a method.
            if answer.get("id") == message["id"] and "method" not in answer:
                return answer
        return None

    def close(self) -> None:
        """Kill the server with its child processes and delete its folder."""
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                cast("IO[bytes]", pipe).close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _receive(self) -> None:
        """Put each line of the server into the queue, and an empty line when it ends or a line is too long."""
        pipe = cast("IO[bytes]", self._process.stdout)

        with contextlib.suppress(OSError, ValueError):  # closed during the read
            while (line := pipe.readline(_MOST_BYTES)).endswith(b"\n"):
                self._lines.put(line)
        self._lines.put(b"")


def _escape_path(folder: Path) -> str:
    """Return the folder's path as a JSON text contains it: with escapes, without quotes."""
    return dumps(str(folder)).decode()[1:-1]


class _HttpServer:
    """A server at a URL. The client follows no redirects."""

    folder = None

    def __init__(self, url: str) -> None:
        self._url = urllib.parse.urlsplit(url)
        self._target = urllib.parse.urlunsplit(("", "", self._url.path or "/", self._url.query, ""))
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def send(self, message: Message, time_limit_s: float) -> Message | None:
        """Send a message and return the answer to it, or None if it is a notification.

        Raises:
            ValueError: the server refused the request, or the reply has no valid answer.
            OSError, http.client.HTTPException: the connection failed.
        """
        with contextlib.closing(self._connection(time_limit_s)) as connection:
            connection.request("POST", self._target, dumps(message), self.headers)
            reply = connection.getresponse()
            if reply.status >= 300:
                raise ValueError(f"the server replied with HTTP status {reply.status}; check the server's URL and log")

            if session_id := reply.getheader("Mcp-Session-Id"):
                self.headers["Mcp-Session-Id"] = session_id

            if "id" not in message:  # a notification
                return None

            for answer in _messages(reply):
                if answer.get("id") == message["id"]:
                    return answer
            raise ValueError("the reply has no answer to the request; check that the URL is an MCP server's")

    def close(self) -> None:
        """Tell the server that the session ends, if it gave the session an id. Failures are ignored."""
        if "Mcp-Session-Id" in self.headers:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                connection = self._connection(5)
                connection.request("DELETE", self._target, headers=self.headers)
                connection.getresponse()
                connection.close()

    def _connection(self, time_limit_s: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        return kind(self._url.netloc.rpartition("@")[2], timeout=time_limit_s)


def _messages(reply: http.client.HTTPResponse) -> Iterator[Message]:
    """Yield the single message of a reply, or those of an event stream: each is the `data` lines before an empty line.

    Raises:
        ValueError: the reply is too long, or a message is not a JSON object.
    """
    is_stream = "event-stream" in reply.headers.get("Content-Type", "")
    data, size = "", 0
    while line := reply.readline(_MOST_BYTES + 1):
        size += len(line)
        if size > _MOST_BYTES:
            raise ValueError(f"the answer exceeds {_MOST_BYTES:,} bytes; shorten the server's answers")

        text = line.decode("utf-8", "replace")
        if not is_stream or text.startswith("data:"):
            data += text.removeprefix("data:").strip() if is_stream else text
        elif not text.strip() and data:
            yield _as_object(data)
            data = ""
    if not is_stream:
        yield _as_object(data)


def _as_object(text: str) -> Message:
    """Return the JSON object of a message, or raise ValueError."""
    value = value_of(text)
    if not isinstance(value, dict):
        raise ValueError("the answer is not a JSON object; check that the command or URL is an MCP server's")
    return value


def files_in(folder: Path) -> dict[str, JSON] | None:
    """Return the content of each file by the path that calls and answers use for it; a folder's content is None.

    Returns None if the files have more than a megabyte together, or the folder has anything but files and folders.
    """
    found: dict[str, JSON] = {}
    bytes_left = _MOST_FILE_BYTES
    for path in sorted(folder.rglob("*")):
        name = f"{FOLDER}/{path.relative_to(folder).as_posix()}"

        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            return None

        bytes_left -= 0 if path.is_dir() else path.stat().st_size
        if bytes_left < 0:
            return None
        found[name] = None if path.is_dir() else _file_text(path.read_bytes(), folder)
    return found


def _file_text(content: bytes, folder: Path) -> str:
    """Return a file's text with the folder's real path replaced, or a hash if it is no text."""
    try:
        return content.decode().replace(str(folder), FOLDER)
    except UnicodeDecodeError:
        return f"sha256:{hashlib.sha256(content).hexdigest()}"
