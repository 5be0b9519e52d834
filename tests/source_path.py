"""Running a checkout from its source: its packages on the path, with the entry points that an installer would write."""

import hashlib
import os
import tempfile
import tomllib
from pathlib import Path


def source_path(checkout: Path) -> str:
    """The PYTHONPATH with which a checkout's own source and plug-ins are found, whatever is installed."""
    return os.pathsep.join([str(checkout / "src"), str(_metadata(checkout))])


def _metadata(checkout: Path) -> Path:
    text = (checkout / "pyproject.toml").read_bytes()
    folder = Path(tempfile.gettempdir()) / f"tunecheck-source-{hashlib.sha256(text).hexdigest()[:16]}"
    info = folder / "tunecheck-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    groups = tomllib.loads(text.decode())["project"]["entry-points"]
    lines: list[str] = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tunecheck\nVersion: 0\n", encoding="utf-8")
    return folder
