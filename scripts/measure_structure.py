"""The house in figures: sizes, importers, cycles, and the files that one row of the main job passes through.

python scripts/measure_structure.py [CHECKOUT] [--list]      # this checkout, or another one of the same project
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "tunecheck"

_TRACED = """
import collections, json, os, runpy, sys, threading
counts = collections.Counter()
package = os.path.join(sys.argv[1], "src", "tunecheck") + os.sep
def note(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(package):
        counts[frame.f_code.co_filename[len(package):]] += 1
def end(code):
    sys.setprofile(None)
    print(json.dumps(counts), file=sys.stderr, flush=True)
    leave(code)
leave, os._exit = os._exit, end
sys.argv = ["evaluate.py", "--dataset", os.path.join("datasets", "val.jsonl"), "--limit", sys.argv[2], "--quiet",
            "--results-dir", sys.argv[3]]
threading.setprofile(note)
sys.setprofile(note)
try:
    runpy.run_path("evaluate.py", run_name="__main__")
finally:
    end(0)
"""


class House:
    """The modules of a checkout: their sizes, and who imports whom, lazy imports included."""

    def __init__(self, checkout: Path) -> None:
        source = checkout / "src"
        self.files = {_name(path, source): path for path in sorted((source / PACKAGE).rglob("*.py"))}
        self.trees = {name: ast.parse(path.read_text("utf-8")) for name, path in self.files.items()}
        self.lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in self.files.items()}
        self.imports = {name: set(self._imported(name)) for name in self.files}

    def _imported(self, name: str) -> Iterator[str]:
        typing_only = {id(node) for node in _for_typing(self.trees[name])}
        for node in ast.walk(self.trees[name]):
            if isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing_only:
                for alias in node.names:
                    if node.module.startswith(PACKAGE):
                        module = f"{node.module}.{alias.name}"
                        yield module if module in self.files else node.module

    @property
    def importers(self) -> Counter[str]:
        """How many modules import each."""
        return Counter(module for imported in self.imports.values() for module in imported)

    def cycles(self) -> list[list[str]]:
        """Groups of modules that import each other in a circle (Tarjan's strongly connected components)."""
        return [sorted(group) for group in _components(self.imports) if len(group) > 1]

    def functions(self) -> Iterator[tuple[str, int]]:
        """Every function with its number of lines."""
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{name}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def _name(path: Path, source: Path) -> str:
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def _for_typing(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for statement in node.body:
                yield from ast.walk(statement)


def _components(graph: dict[str, set[str]]) -> list[set[str]]:
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node] & graph.keys() - {node}:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            group: set[str] = set()
            while node not in group:
                group.add(stack.pop())
            components.append(group)

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in index:
            visit(node)
    return components


def files_of_a_row(checkout: Path) -> list[str]:
    """The files in which more is called when `evaluate.py` takes more rows of the sample."""
    few, more = (_calls(checkout, rows) for rows in (20, 60))
    return sorted(file for file in more if more[file] > few.get(file, 0))


def _calls(checkout: Path, rows: int) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as results:
        done = subprocess.run(
            [sys.executable, "-c", _TRACED, str(checkout), str(rows), results],
            cwd=checkout,
            env={"PYTHONPATH": str(checkout / "src"), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
    counts: dict[str, int] = json.loads(done.stderr.splitlines()[-1])
    return counts


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("checkout", nargs="?", default=".", type=Path, help="a checkout of the project (default: .)")
    parser.add_argument("--list", action="store_true", help="name the files, cycles and modules that are counted")
    arguments = parser.parse_args()
    if not (arguments.checkout / "src" / PACKAGE).is_dir():
        parser.exit(2, f"error: {arguments.checkout} is no checkout of the project: it has no src/{PACKAGE}\n")
    return arguments


def _figures(checkout: Path) -> tuple[House, list[str]]:
    try:
        return House(checkout), files_of_a_row(checkout)
    except SyntaxError as error:
        sys.exit(f"error: {error.filename or checkout}: {error.msg} (line {error.lineno})")
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it said nothing"])[-1]
        sys.exit(f"error: evaluate.py of {checkout} failed: {last}")


def main() -> None:
    """Print the figures of a checkout."""
    arguments = _arguments()
    house, rows = _figures(arguments.checkout.resolve())
    sizes = sorted(size for _, size in house.functions())
    modules = [name for name in house.files if name != PACKAGE]
    single = [name for name in modules if house.importers[name] == 1 and not house.files[name].name.startswith("__")]
    knots = house.cycles()
    families = defaultdict(list)
    for path in house.files.values():
        first, _, rest = path.stem.strip("_").partition("_")
        if rest:
            families[path.parent, first].append(path)
    internal = sum("._" in name for name in modules)
    figures = {
        "files that one row passes through": len(rows),
        "modules": len(house.files),
        "lines": sum(house.lines.values()),
        "modules over 500 lines": sum(size > 500 for size in house.lines.values()),
        "modules with one importer": len(single),
        "of these, under 100 lines": sum(house.lines[name] < 100 for name in single),
        "import cycles": len(knots),
        "modules in import cycles": sum(map(len, knots)),
        "families of four or more with one first word": sum(len(paths) >= 4 for paths in families.values()),
        "internal modules, percent": round(100 * internal / len(modules)),
        "functions": len(sizes),
        "functions over 60 lines": sum(size > 60 for size in sizes),
        "lines of a function, median and 90%": f"{sizes[len(sizes) // 2]}, {sizes[len(sizes) * 9 // 10]}",
    }
    for name, figure in figures.items():
        print(f"{name:50} {figure}")
    if arguments.list:
        print("a row passes through:", *rows, sep="\n  ")
        print("cycles:", *(" ".join(knot) for knot in knots), sep="\n  ")
        print("one importer:", *(f"{name} ({house.lines[name]})" for name in sorted(single)), sep="\n  ")


if __name__ == "__main__":
    main()
