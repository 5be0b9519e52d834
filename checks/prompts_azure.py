"""Run by a python that has azure-ai-evaluation, or promptflow-core: what its loader renders, as JSON.

Stdin: {"cases": [[path, [values, …]], …]}. Stdout: {"own": the package's own prompts, "rendered": [[messages, or null
where it refuses, …], …]}.
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
    order = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        load = importlib.import_module(LOADERS[which]).AsyncPrompty.load
        rendered = [[_rendered(load, path, values) for values in many] for path, many in order["cases"]]
        own = sorted(map(str, _package().rglob("*.prompty"))) if which == "azure" else []
    print(json.dumps({"own": own, "rendered": rendered}))


def _package() -> Path:
    return Path(str(importlib.import_module("azure.ai.evaluation").__file__)).parent


def _rendered(load: Any, path: str, values: dict[str, Any]) -> Any:
    try:
        rendered = load(path, model={"configuration": dict(CONFIGURATION)}).render(**values)
    except Exception as error:
        print(f"{path}: {error}", file=sys.stderr)
        return None
    # Prompt flow gives the list's text.
    return ast.literal_eval(rendered) if isinstance(rendered, str) else rendered


if __name__ == "__main__":
    main(sys.argv[1])
