"""Images inside conversations: taken out of the table into files of their own, as the portal expects them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from pathlib import Path

from tunecheck._json import JSON

_COLUMN = "inputs.conversation"
_IMAGE = re.compile(r"data:image/([a-z0-9.+-]{1,20});base64,", re.IGNORECASE)

_SUFFIXES = {
    "png": "png",
    "jpeg": "jpeg",
    "jpg": "jpg",
    "gif": "gif",
    "bmp": "bmp",
    "webp": "webp",
    "tiff": "tiff",
    "avif": "avif",
    "heic": "heic",
    "heif": "heif",
    "svg+xml": "svg",
    "x-icon": "ico",
    "vnd.microsoft.icon": "ico",
}
"""The only file names that a row's data can lead to."""


def take_images_out(row: dict[str, JSON], folder: Path, images: dict[str, Path]) -> None:
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
    found = _IMAGE.match(url) if isinstance(url, str) else None
    suffix = _SUFFIXES.get(found.group(1).lower()) if found else None
    if found is None or suffix is None or not isinstance(url, str):
        return
    try:
        content = base64.b64decode(url[found.end() :], validate=True)
    except (binascii.Error, ValueError):
        return  # not what it says it is: it stays where it is
    name = f"images/{hashlib.sha256(content).hexdigest()[:32]}.{suffix}"
    if name not in images:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        images[name] = path
    holder["url"] = name
