"""Run by a python that has the package prompty 2.x: its messages for some prompts beside ours, as JSON.

Stdin: [[path, [values, …]], …]. Stdout: [[{"theirs": messages or null, "ours": messages or null}, …], …].
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from typing import Any


def main() -> None:
    cases = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        found = [
            [{"theirs": _theirs(path, values), "ours": _ours(path, values)} for values in many] for path, many in cases
        ]
    print(json.dumps(found))


def _theirs(path: str, values: dict[str, Any]) -> Any:
    prompty: Any = importlib.import_module("prompty")
    try:
        messages = prompty.prepare(prompty.load(path), values)
    except Exception as error:
        print(f"{path}: {error}", file=sys.stderr)
        return None
    return [{"role": message.role, **message.metadata, "content": message.text} for message in messages]


def _ours(path: str, values: dict[str, Any]) -> Any:
    from tunecheck._errors import TunecheckError
    from tunecheck.prompts._loading import load_prompt

    try:
        return load_prompt(path).render(values)
    except TunecheckError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return None


if __name__ == "__main__":
    main()
