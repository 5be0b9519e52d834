"""Azurite, the real blob store of the upload's tests: installed once into the environments' cache, run on loopback."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, which its documentation publishes: it protects nothing."""


def azurite_program() -> Path:
    """The program, installed with npm where it is not there yet.

    Raises:
        RuntimeError: it cannot be installed; the text is npm's.
    """
    cache = Path(os.environ.get("TUNECHECK_TEST_CACHE", Path.home() / ".cache" / "tunecheck-tests"))
    folder = cache / f"azurite-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        lock_descriptor(lock.fileno())  # several test processes may ask for it at once
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            command = ["npm", "install", "--no-audit", "--no-fund", "--silent", f"azurite@{VERSION}"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode:
                raise RuntimeError(f"cannot install azurite: {done.stderr.strip()[-2000:]}")
            (folder / "ready").touch()
    return folder / "node_modules" / ".bin" / "azurite-blob"


@contextlib.contextmanager
def azurite(folder: Path) -> Iterator[int]:
    """A blob store in memory; gives its port."""
    port = free_port()
    command = [
        str(azurite_program()),
        *("--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"),
        *("--blobPort", str(port)),
    ]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until_up(f"http://127.0.0.1:{port}/{ACCOUNT}", process)
            yield port
        finally:
            process.terminate()


def wait_until_up(url: str, process: subprocess.Popen[bytes], limit_s: float = 120.0) -> None:
    """Wait until something answers there, whatever it says."""
    for _ in range(int(limit_s / 0.1)):
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"nothing answers at {url}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
