"""Print figures on the structure of a checkout: code lines, imports across packages, and what one row passes through.

python scripts/measure_structure.py [CHECKOUT] [--list]      # this checkout, or another one of the same project
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

CORE = "tunecheck"

_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}

_PLUGIN_IN_STRING = re.compile(rf"{CORE}_\w+([.:][\w.:]+)?")

_TRACED = """
import collections, json, os, runpy, sys, threading
counts = collections.Counter()
source = os.path.join(sys.argv[1], "src") + os.sep
def note(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(source):
        counts[frame.f_code.co_filename[len(source):]] += 1
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


@dataclass(frozen=True)
class Import:
    """One import of a module of the project; `lazy` if it stands inside a function."""

    importer: str
    imported: str
    lazy: bool

    @property
    def deep(self) -> bool:
        """Whether the imported name has a part that begins with an underscore."""
        return any(part.startswith("_") and not part.endswith("__") for part in self.imported.split("."))


class SourceFile:
    """A Python file: its lines by kind, classes, functions, imports and strings."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self.text = path.read_text("utf-8")
        self.tree = ast.parse(self.text, filename=str(path))
        self.package = name.partition(".")[0]

    @cached_property
    def docstring_lines(self) -> set[int]:
        """Line numbers of docstrings, and of strings that document a name."""
        found: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                for statement in node.body:
                    if isinstance(statement, ast.Expr) and _is_text(statement.value):
                        found |= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        return found

    @cached_property
    def code_lines(self) -> set[int]:
        """Line numbers of the lines that hold code: no blank lines, comments or docstrings."""
        found: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in _LAYOUT:
                found |= set(range(token.start[0], token.end[0] + 1))
        return found - self.docstring_lines

    @cached_property
    def explaining_lines(self) -> int:
        """How many lines hold a docstring, or nothing but a comment."""
        comments = sum(line.lstrip().startswith("#") for line in self.text.splitlines())
        return len(self.docstring_lines) + comments

    @property
    def classes(self) -> Iterator[str]:
        """Names of the classes defined here, nested ones included."""
        return (node.name for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))

    @property
    def function_sizes(self) -> Iterator[tuple[int, int]]:
        """Code lines of every function, and all its lines, with docstring, comments and blank lines."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                yield len(self.code_lines.intersection(lines)), len(lines)

    @cached_property
    def imports(self) -> list[Import]:
        """Imports of the project's modules, except those for type checkers only."""
        lazy = {id(inner) for node in ast.walk(self.tree) if _is_function(node) for inner in ast.walk(node)}
        typing_only = {id(node) for node in _for_typing(self.tree)}
        found = []
        for node in ast.walk(self.tree):
            if id(node) not in typing_only:
                found += [Import(self.name, name, id(node) in lazy) for name in _imported(node)]
        return found

    @property
    def strings(self) -> Iterator[str]:
        """Every string of the code, docstrings left out."""
        constants = (node for node in ast.walk(self.tree) if isinstance(node, ast.Constant))
        code = (node.value for node in constants if node.lineno not in self.docstring_lines)
        return (value for value in code if isinstance(value, str))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def _imported(node: ast.AST) -> Iterator[str]:
    names: list[str] = []
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    yield from (name for name in names if name.partition(".")[0].startswith(CORE))


def _for_typing(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for statement in node.body:
                yield from ast.walk(statement)


class Checkout:
    """The packages under src/ of a checkout: the core, and the plug-ins next to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        source = root / "src"
        paths = sorted(path for package in source.glob(f"{CORE}*") for path in package.rglob("*.py"))
        self.files = {name: SourceFile(name, path) for path in paths for name in [_name(path, source)]}

    @property
    def packages(self) -> dict[str, list[SourceFile]]:
        """The files of each package, the core first."""
        found: dict[str, list[SourceFile]] = defaultdict(list)
        for file in self.files.values():
            found[file.package].append(file)
        return dict(sorted(found.items()))

    def module_of(self, imported: str) -> str:
        """The module that an imported name stands in."""
        return imported if imported in self.files else imported.rpartition(".")[0]

    @cached_property
    def graph(self) -> dict[str, set[str]]:
        """Which modules each module imports, lazily or not."""
        return {
            name: {self.module_of(one.imported) for one in file.imports if "." in one.imported}
            for name, file in self.files.items()
        }

    @property
    def importers(self) -> Counter[str]:
        """How many modules import each module."""
        return Counter(module for imported in self.graph.values() for module in imported)

    def cycles(self) -> list[list[str]]:
        """Groups of modules that import each other in a circle (Tarjan's strongly connected components)."""
        return [sorted(group) for group in _components(self.graph) if len(group) > 1]

    def repeated_classes(self) -> dict[str, list[str]]:
        """Class names that are defined more than once, with their modules."""
        found: dict[str, list[str]] = defaultdict(list)
        for name, file in self.files.items():
            for class_name in file.classes:
                found[class_name].append(name)
        return {name: modules for name, modules in sorted(found.items()) if len(modules) > 1}

    def imports_of_plugins(self) -> list[Import]:
        """Imports from the core to plug-ins."""
        core = [one for file in self.packages[CORE] for one in file.imports]
        return [one for one in core if one.imported.partition(".")[0] != CORE]

    def strings_naming_plugins(self) -> list[tuple[str, str]]:
        """Strings in the core that name a plug-in's package or a module of one, with the module they are in."""
        plugins = self.packages.keys() - {CORE}
        return [
            (file.name, text)
            for file in self.packages[CORE]
            for text in file.strings
            if _PLUGIN_IN_STRING.fullmatch(text) and re.split("[.:]", text)[0] in plugins
        ]

    def deep_imports(self) -> list[Import]:
        """Imports from plug-ins of the core's names and modules that begin with an underscore."""
        plugins = [one for file in self.files.values() if file.package != CORE for one in file.imports]
        return [one for one in plugins if one.imported.startswith(f"{CORE}.") and one.deep]

    def imports_between_plugins(self) -> list[Import]:
        """Imports from one plug-in to another one."""
        return [
            one
            for file in self.files.values()
            for one in file.imports
            if file.package != CORE and one.imported.partition(".")[0] not in (CORE, file.package)
        ]

    def deep_tests(self) -> tuple[list[str], int]:
        """The files of tests/ that import a name or module with an underscore, and how many files there are."""
        paths = sorted((self.root / "tests").rglob("*.py"))
        files = [SourceFile(path.relative_to(self.root).as_posix(), path) for path in paths]
        return [file.name for file in files if any(one.deep for one in file.imports)], len(files)


def _name(path: Path, source: Path) -> str:
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


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
    parser.add_argument("--list", action="store_true", help="name the files, classes and imports that are counted")
    arguments = parser.parse_args()
    if not (arguments.checkout / "src" / CORE).is_dir():
        parser.exit(2, f"error: {arguments.checkout} is no checkout of the project: it has no src/{CORE}\n")
    return arguments


def _measured(root: Path) -> tuple[Checkout, list[str]]:
    try:
        return Checkout(root), files_of_a_row(root)
    except SyntaxError as error:
        sys.exit(f"error: {error.filename or root}: {error.msg} (line {error.lineno})")
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        sys.exit(f"error: evaluate.py of {root} failed: {last}")


def _print_packages(checkout: Checkout) -> None:
    print(f"{'package':28}{'code lines':>12}{'modules':>9}{'all lines':>11}{'docstrings and comments':>25}")
    packages = {f"{name} (core)" if name == CORE else name: files for name, files in checkout.packages.items()}
    for name, files in {**packages, "all": list(checkout.files.values())}.items():
        lines = sum(file.text.count("\n") for file in files)
        share = sum(file.explaining_lines for file in files) / lines
        code = sum(len(file.code_lines) for file in files)
        print(f"{name:28}{code:>12,}{len(files):>9,}{lines:>11,}{share:>25.1%}")


def _figures(checkout: Checkout, row: list[str]) -> dict[str, object]:
    pairs = [sizes for file in checkout.files.values() for sizes in file.function_sizes]
    code, every = sorted(code for code, _ in pairs), sorted(lines for _, lines in pairs)
    upward, deep, between = checkout.imports_of_plugins(), checkout.deep_imports(), checkout.imports_between_plugins()
    knots, single, (deep_tests, tests) = checkout.cycles(), _with_one_importer(checkout), checkout.deep_tests()
    internal = sum("._" in name for name in checkout.files)
    return {
        "imports from the core to plug-ins, at the top of a module": sum(not one.lazy for one in upward),
        "imports from the core to plug-ins, inside a function": sum(one.lazy for one in upward),
        "strings in the core that name a plug-in's module": len(checkout.strings_naming_plugins()),
        "names that plug-ins import from the core's underscore modules": len(deep),
        "of these, different modules": len({checkout.module_of(one.imported) for one in deep}),
        "names that plug-ins import from other plug-ins": len(between),
        "test files that import an underscore module": f"{len(deep_tests)} of {tests}",
        "class names defined more than once": len(checkout.repeated_classes()),
        "files that one row passes through": len(row),
        "modules over 500 lines": sum(file.text.count("\n") > 500 for file in checkout.files.values()),
        "modules with one importer": len(single),
        "of these, under 100 lines": sum(checkout.files[name].text.count("\n") < 100 for name in single),
        "import cycles": len(knots),
        "modules in import cycles": sum(map(len, knots)),
        "families of four or more modules with one first word": _families(checkout),
        "internal modules, percent": round(100 * internal / len(checkout.files)),
        "functions": len(pairs),
        "functions over 60 code lines": sum(size > 60 for size in code),
        "code lines of a function, median and 90th percentile": _median_and_p90(code),
        "all lines of a function, median and 90th percentile": _median_and_p90(every),
    }


def _median_and_p90(sizes: list[int]) -> str:
    return f"{sizes[len(sizes) // 2]}, {sizes[len(sizes) * 9 // 10]}"


def _with_one_importer(checkout: Checkout) -> list[str]:
    importers = checkout.importers
    files = checkout.files
    return sorted(name for name in files if importers[name] == 1 and not files[name].path.name.startswith("__"))


def _families(checkout: Checkout) -> int:
    families: Counter[tuple[Path, str]] = Counter()
    for file in checkout.files.values():
        first, _, rest = file.path.stem.strip("_").partition("_")
        if rest:
            families[file.path.parent, first] += 1
    return sum(count >= 4 for count in families.values())


def _print_lists(checkout: Checkout, row: list[str]) -> None:
    imports = {
        "imports from the core to plug-ins": checkout.imports_of_plugins(),
        "imports of the core's underscore modules": checkout.deep_imports(),
        "imports between plug-ins": checkout.imports_between_plugins(),
    }
    for title, found in imports.items():
        print(f"{title}:", *(f"{one.importer}: {one.imported}" for one in found), sep="\n  ")
    named = (f"{name}: {text}" for name, text in checkout.strings_naming_plugins())
    print("strings in the core that name a plug-in's module:", *named, sep="\n  ")
    print("tests that import an underscore module:", *checkout.deep_tests()[0], sep="\n  ")
    classes = (f"{name}: {', '.join(modules)}" for name, modules in checkout.repeated_classes().items())
    print("classes defined more than once:", *classes, sep="\n  ")
    print("one row passes through:", *row, sep="\n  ")
    print("import cycles:", *map(" ".join, checkout.cycles()), sep="\n  ")
    print("modules with one importer:", *_with_one_importer(checkout), sep="\n  ")


def main() -> None:
    """Print the figures of a checkout."""
    arguments = _arguments()
    checkout, row = _measured(arguments.checkout.resolve())
    _print_packages(checkout)
    print()
    for name, figure in _figures(checkout, row).items():
        print(f"{name:64} {figure}")
    if arguments.list:
        _print_lists(checkout, row)


if __name__ == "__main__":
    main()
