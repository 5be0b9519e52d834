"""What the Foundry portal shows of a run: properties that name its table, the table itself, images as files."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tunecheck._json import JSON, dumps, dumps_line
from tunecheck.runs._store import Run
from tunecheck_upload._contents import Artifact, Contents, artifact, cell, common_artifacts, table_columns

_TABLE = "instance_results.jsonl"

_SEGMENT, _MOST_SEGMENTS = 950, 10

_COLUMN = "inputs.conversation"
_IMAGE = re.compile(r"data:image/([a-z0-9.+-]{1,20});base64,", re.IGNORECASE)

_SUFFIXES = {
    **{name: name for name in ("png", "jpeg", "jpg", "gif", "bmp", "webp", "tiff", "avif", "heic", "heif")},
    "svg+xml": "svg",
    "x-icon": "ico",
    "vnd.microsoft.icon": "ico",
}
"""The only file names that a row's data can lead to."""


def properties(contents: Contents, marker: str) -> dict[str, JSON]:
    """What tells the portal that a run is an evaluation, and where its table is."""
    from tunecheck._version import __version__

    table: list[JSON] = [{"path": _TABLE, "type": "table"}]
    return {
        "runType": "eval_run",
        "_azureml.evaluation_sdk_name": f"tunecheck:{__version__}",
        "_azureml.evaluate_artifacts": dumps(table).decode(),
        **_name_map_properties(contents.name_map),
        "tunecheck.run": contents.run.id,
        "tunecheck_upload": marker,
    }


def _name_map_properties(names: Mapping[str, str]) -> dict[str, JSON]:
    """The map as JSON in segments of at most 950 characters; of a longer one the portal gets the length -1."""
    text = dumps(dict(names)).decode()
    segments = [text[start : start + _SEGMENT] for start in range(0, len(text), _SEGMENT)]
    key = "_azureml.evaluation_name_map"
    if len(segments) > _MOST_SEGMENTS:
        return {f"{key}_length": -1}
    return {f"{key}_length": len(segments), **{f"{key}_{index}": segment for index, segment in enumerate(segments)}}


def portal_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """The files that the portal is given; what is not in the run's folder is made in `folder`, row by row."""
    images: dict[str, Path] = {}
    columns = table_columns(run.rows())
    with (folder / _TABLE).open("wb") as file:
        for number, row in enumerate(run.rows()):
            shown = {name: cell(row, name) for name in columns}
            _take_images_out(shown, folder, images)
            # A line's number is what the portal tells its rows apart by.
            file.write(dumps_line({**shown, "line_number": number}))
    yield artifact(_TABLE, folder / _TABLE)
    for name, path in images.items():
        yield artifact(name, path)
    yield from common_artifacts(run, folder)


def _take_images_out(row: dict[str, JSON], folder: Path, images: dict[str, Path]) -> None:
    """Replace each base64 image in the row's conversation by the name of a file that holds it.

    The file's name is made of its content, so that the same image is the same file. `images` collects them.
    """
    conversation = row.get(_COLUMN)
    messages = conversation.get("messages") if isinstance(conversation, dict) else None
    for message in messages if isinstance(messages, list) else []:
        parts = message.get("content") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else []:
            holder = part.get("image_url") if isinstance(part, dict) and part.get("type") == "image_url" else None
            if isinstance(holder, dict):
                _take_out(holder, folder, images)


def _take_out(holder: dict[str, JSON], folder: Path, images: dict[str, Path]) -> None:
    url = holder.get("url")
    image = _IMAGE.match(url) if isinstance(url, str) else None
    suffix = _SUFFIXES.get(image[1].lower()) if image else None
    if image is None or suffix is None or not isinstance(url, str):
        return
    try:
        content = base64.b64decode(url[image.end() :], validate=True)
    except (binascii.Error, ValueError):
        return  # not what it says it is: it stays where it is
    name = f"images/{hashlib.sha256(content).hexdigest()[:32]}.{suffix}"
    if name not in images:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        images[name] = path
    holder["url"] = name
