"""Evaluate an endpoint: `python evaluate.py --dataset val.jsonl`. The same as `tunecheck evaluate`."""

import sys

if __name__ == "__main__":
    sys.path.append(sys.path.pop(0))  # a file here that is called like a package must not take its place
    try:
        from tunecheck.cli._app import evaluate_main
    except ModuleNotFoundError as missing:
        sys.exit(f"error: the package {missing.name} is not installed; first run:  pip install -e .")
    sys.exit(evaluate_main())
