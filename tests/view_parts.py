"""A server of `tunecheck view`, in a process of its own."""

import http.client
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli_parts import command, environment


@dataclass(frozen=True)
class Served:
    """A server at work."""

    url: str
    folder: Path
    token: str

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def address(self, path: str = "/") -> str:
        """A page for a browser that comes with the token."""
        path, hash_, words = path.partition("#")
        return f"{self.url}{path}?token={self.token}{hash_}{words}"

    def get(
        self, path: str, method: str = "GET", *, token: str | None = None, **headers: str
    ) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            known = self.token if token is None else token
            joint = "&" if "?" in path else "?"
            connection.putrequest(method, f"{path}{joint}token={known}" if known else path, skip_host=True)
            for name, value in {"Host": f"127.0.0.1:{self.port}", **headers}.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return response.status, response.read().decode("utf-8"), response.headers
        finally:
            connection.close()


@contextmanager
def serving(folder: Path, **more: str) -> Iterator[Served]:
    server = subprocess.Popen(
        command("view", "--results-dir", str(folder), "--port", "0"),
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        said = server.stdout.readline()
        assert "(this machine only)" in said
        url, _, token = said.split(" on ")[1].split(" ")[0].partition("/?token=")
        yield Served(url, folder, token)
        server.terminate()
        _, complaints = server.communicate(timeout=30)
        assert os.name == "nt" or (server.returncode, complaints) == (0, "")  # there it has no chance to say anything
    finally:
        server.kill()
        server.communicate()
