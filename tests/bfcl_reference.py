"""The reference implementation of BFCL in an environment of its own, and its data, for tests and benchmarks only.

    python = reference_python()               # can import bfcl_eval's checkers and simulators
    python = reference_python(command=True)   # also the reference's command that evaluates results (170 MB):
        # from bfcl_eval.eval_checker.eval_runner import main; main([model], [category, …], result_dir, score_dir)
    data = reference_data()                   # the folder `bfcl_eval/data` of the wheel, unpacked

Both are kept in the test cache, safe under pytest-xdist, and skip the test where the package index is out of reach.
"""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from filelock import lock_descriptor
from tests.reference_environments import make_environment

VERSION = "2026.3.23"

_NEEDED = (
    "filelock==3.20.0",
    "mpmath==1.3.0",
    "overrides",
    "tenacity>=8.5.0",
    "tree_sitter==0.21.3",
    "tree-sitter-java==0.21.0",
    "tree-sitter-javascript==0.21.4",
)
_NEEDED_BY_COMMAND = ("numpy==1.26.4", "pandas", "python-dotenv", "tabulate", "tqdm", "typer")

_REGISTRY = '''\
"""Stands in for the reference's registry of models, which would import the client packages of all vendors."""

import json


class Handler:
    """Reads results of function-calling models, in a way that stands for all of them."""

    def __init__(self, *args, **kwargs):
        pass

    def decode_ast(self, result, language, has_tool_call_tag=False):
        return [{name: json.loads(arguments)} for call in result for name, arguments in call.items()]

    def decode_execute(self, result, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import convert_to_function_call

        return convert_to_function_call(result)


class Entry:
    def __init__(self, name):
        self.model_name = self.display_name = name
        self.url = self.org = self.license = ""
        self.input_price = self.output_price = None
        self.is_fc_model = self.underscore_to_dot = True
        self.model_handler = Handler


class Registry(dict):
    def __contains__(self, name):
        return True

    def __missing__(self, name):
        return Entry(name)


MODEL_CONFIG_MAPPING = Registry()
'''


def reference_wheel() -> Path:
    """The reference's wheel, downloaded once."""
    folder = _cache() / f"bfcl-eval-{VERSION}"
    with (_cache() / "bfcl-wheel.lock").open("w") as lock:
        lock_descriptor(lock.fileno())
        wheels = list(folder.glob("*.whl"))
        if not wheels:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            _run([*pip, "--dest", str(folder), f"bfcl-eval=={VERSION}"])
            wheels = list(folder.glob("*.whl"))
    return wheels[0]


def reference_data() -> Path:
    """The folder of the reference's data: `BFCL_v4_*.json`, `possible_answer/`, `multi_turn_func_doc/` and the rest."""
    wheel = reference_wheel()
    folder = wheel.parent / "unpacked"
    with (_cache() / "bfcl-data.lock").open("w") as lock:
        lock_descriptor(lock.fileno())
        if not (folder / "ready").exists():
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder, [name for name in archive.namelist() if name.startswith("bfcl_eval/data/")])
            (folder / "ready").touch()
    return folder / "bfcl_eval" / "data"


def reference_python(*, command: bool = False) -> Path:
    """The python of an environment in which the reference's checkers and simulators can be imported."""
    needed = (*_NEEDED, *_NEEDED_BY_COMMAND) if command else _NEEDED
    try:
        python = make_environment("bfcl-command" if command else "bfcl", *needed)
    except RuntimeError as error:
        pytest.skip(f"no environment for the reference: {error}")
    ready = python.parent.parent / f"bfcl-{hashlib.sha256(_REGISTRY.encode()).hexdigest()[:8]}"
    with ready.with_suffix(".lock").open("w") as lock:
        lock_descriptor(lock.fileno())
        if not ready.exists():
            install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--python", str(python)]
            _run([*install, str(reference_wheel())])
            (package,) = python.parent.parent.glob("lib/python*/site-packages/bfcl_eval")
            (package / "constants" / "model_config.py").write_text(_REGISTRY)
            ready.touch()
    return python


def _cache() -> Path:
    cache = Path(os.environ.get("TUNECHECK_TEST_CACHE", Path.home() / ".cache" / "tunecheck-tests"))
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"the reference cannot be fetched: {done.stderr.strip()[-500:]}")
