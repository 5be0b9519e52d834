"""Replays calls against BFCL's own simulators: run by the python of an environment that holds `bfcl-eval`.

    python simulator_reference_replay.py CASES OUT

CASES holds one case a line, `{"class", "config", "long_context", "calls": [[name, arguments, positional?], …]}`; OUT
gets one line a case, `{"load_error", "results": [{"text", "error", "state"}, …], "state", "state_text"}`, where each
result's `state` is a digest of the state after the call, the last `state` the whole, as `plain_state` writes it, and
`state_text` what an inference log shows of it.

Only the standard library is imported here, so that both sides can use `plain_state` and `digest`.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import signal
import sys
from typing import Any

CALL_LIMIT_S = 5


def plain_state(state: dict[str, Any]) -> dict[str, Any]:
    """A state as JSON in which equal states, and only they, are equal: types of numbers and keys are kept."""
    return {name: plain(value) for name, value in state.items()}


def plain(value: Any) -> Any:
    if hasattr(value, "contents"):
        return {f"str {value.name}": plain_directory(value)}
    if isinstance(value, dict):
        return {f"{type(key).__name__} {key}": plain(each) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted((plain(each) for each in value), key=repr)}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, (str, bool, int, type(None))):
        return value
    return f"{type(value).__name__} {value!r}"


def plain_directory(directory: Any) -> Any:
    """A directory of the reference's file system as the plain data that ours has for it."""
    made: dict[str, Any] = {}
    for name, entry in directory.contents.items():
        if hasattr(entry, "contents"):
            shown = plain_directory(entry)
        else:
            shown = entry.content if isinstance(entry.content, str) else plain(("content", entry.content))
        made[f"str {name}"] = shown if entry.name == name else [f"misnamed {entry.name}", shown]
    return made


def digest(state: dict[str, Any]) -> str:
    """A short text that is equal for equal states; "endless" for one that holds itself."""
    try:
        text = json.dumps(plain_state(state), sort_keys=True)
    except RecursionError:
        return "endless"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def result_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except Exception:
            return str(value)
    return str(value)


class Late(Exception):
    pass


def replay(case: dict[str, Any], makers: dict[str, str]) -> dict[str, Any]:
    made = getattr(importlib.import_module(makers[case["class"]]), case["class"])
    fresh_defaults(made)
    instance = made()
    try:
        if hasattr(instance, "_load_scenario"):
            instance._load_scenario(copy.deepcopy(case["config"]), long_context=bool(case.get("long_context")))
    except Exception as error:
        return {"load_error": repr(error), "results": [], "state": {}, "state_text": {}}
    results = []
    for name, arguments, *positional in case["calls"]:
        fresh_defaults(made)
        results.append({**call(instance, name, arguments, *positional), "state": digest(public(instance))})
    if results and results[-1]["state"] == "endless":
        return {"load_error": None, "results": results, "state": {}, "state_text": {}}
    state = public(instance)
    return {"load_error": None, "results": results, "state": plain_state(state), "state_text": logged(state)}


def call(instance: Any, name: str, arguments: dict[str, Any], positional: Any = ()) -> dict[str, Any]:
    signal.alarm(CALL_LIMIT_S)
    try:
        value = getattr(instance, name)(*copy.deepcopy(list(positional)), **copy.deepcopy(arguments))
        return {"text": result_text(value), "error": isinstance(value, dict) and "error" in value}
    except Exception as error:
        return {"text": f"{type(error).__name__}: {error}", "error": True}
    finally:
        signal.alarm(0)


def public(instance: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(instance).items() if not name.startswith("_")}


def logged(state: dict[str, Any]) -> dict[str, Any]:
    """The state as an inference log has it: what JSON has no form for becomes text."""
    shown = {}
    for name, value in state.items():
        try:
            shown[name] = json.loads(json.dumps(value))
        except TypeError:
            shown[name] = str(value)
    return shown


def fresh_defaults(made: Any) -> None:
    """Undo what earlier calls did to default arguments, which the reference shares between all of them."""
    for method in vars(made).values():
        if getattr(method, "__defaults__", None):
            if not hasattr(method, "first_defaults"):
                method.first_defaults = copy.deepcopy(method.__defaults__)
            method.__defaults__ = copy.deepcopy(method.first_defaults)


def late(*_: Any) -> None:
    raise Late("the call took too long")


def main(cases: str, out: str) -> None:
    from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING  # type: ignore[import-not-found]

    signal.signal(signal.SIGALRM, late)
    with open(cases, encoding="utf-8") as lines, open(out, "w", encoding="utf-8") as answers:
        for line in lines:
            answers.write(json.dumps(replay(json.loads(line), CLASS_FILE_PATH_MAPPING)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
