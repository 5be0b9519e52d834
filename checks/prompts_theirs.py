"""Run by a python that has azure-ai-evaluation, promptflow-core or prompty: what its loader renders, as JSON.

Argument: azure, promptflow or prompty. Stdin: [[path, [values, …]], …]. Stdout: {"own": the package's own prompts,
"rendered": [[messages, or null where it refuses, …], …]}.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

CONFIGURATION = {
    "type": "azure_openai",
    "azure_endpoint": "https://example.openai.azure.com",
    "azure_deployment": "judge",
    "api_key": "none",
}

LOADERS = {"azure": "azure.ai.evaluation._legacy.prompty", "promptflow": "promptflow.core"}


def main(which: str) -> None:
    cases = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        rendered = [[_rendered(which, path, values) for values in many] for path, many in cases]
        own = sorted(map(str, _package().rglob("*.prompty"))) if which == "azure" else []
    print(json.dumps({"own": own, "rendered": rendered}))


def _package() -> Path:
    return Path(str(importlib.import_module("azure.ai.evaluation").__file__)).parent


def _rendered(which: str, path: str, values: dict[str, Any]) -> Any:
    try:
        rendered = _prompty(path, values) if which == "prompty" else _older(LOADERS[which], path, values)
    except Exception as error:
        print(f"{path}: {error}", file=sys.stderr)
        return None
    # Prompt flow gives the list's text.
    return ast.literal_eval(rendered) if isinstance(rendered, str) else rendered


def _older(loader: str, path: str, values: dict[str, Any]) -> Any:
    load = importlib.import_module(loader).AsyncPrompty.load
    try:
        prompt = load(path)
    except Exception:  # it names a connection of somebody's workspace, or none
        prompt = load(path, model={"configuration": dict(CONFIGURATION)})
    return prompt.render(**values)


def _prompty(path: str, values: dict[str, Any]) -> Any:
    prompty: Any = importlib.import_module("prompty")
    as_sent: Any = importlib.import_module("prompty.providers.openai.executor")._message_to_wire
    return [as_sent(message) for message in prompty.prepare(prompty.load(path), values)]


if __name__ == "__main__":
    main(sys.argv[1])
