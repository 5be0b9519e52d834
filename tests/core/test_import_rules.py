"""Which package may import which, in ways that import-linter does not see: by string, for types, and from plug-ins."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import pytest
from tests.conftest import ROOT

SOURCE = ROOT / "src"

PLUGINS = sorted(path.name for path in SOURCE.glob("tunecheck_*"))

COMPUTED = {
    "tunecheck._lazy",  # the names of a package's own stub file
    "tunecheck.endpoints._function_process",  # a function that a user's definition names
    "tunecheck.plugins._interface",  # what plug-ins register
}
"""Modules of the core that import a module by a name in a variable."""


@lru_cache
def modules(package: str) -> list[tuple[str, ast.Module]]:
    return [
        (".".join(path.relative_to(SOURCE).with_suffix("").parts), ast.parse(path.read_text("utf-8")))
        for path in sorted((SOURCE / package).rglob("*.py"))
    ]


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported anywhere: at the top, in functions, for types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def strings(tree: ast.AST) -> Iterator[str]:
    """The texts in the code, docstrings left out."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Expr)
    docstrings = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, documented)
        for statement in getattr(node, "body", [])
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_the_core_imports_no_plugin_not_even_for_types() -> None:
    found = {(name, imported) for name, tree in modules("tunecheck") for imported in imports(tree)}
    assert [each for each in found if each[1].startswith("tunecheck_")] == []


def test_no_text_in_the_core_names_a_plugin_s_module() -> None:
    mentions = re.compile(rf"\b({'|'.join(PLUGINS)})\b")
    found = [(name, text) for name, tree in modules("tunecheck") for text in strings(tree) if mentions.search(text)]
    assert found == []


def test_texts_in_the_core_name_only_modules_of_packages_below_them() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    level = {name: at for at, line in enumerate(contract["layers"]) for name in line.split(" : ")}
    above = [
        (name, text)
        for name, tree in modules("tunecheck")
        for text in strings(tree)
        if (named := re.fullmatch(r"tunecheck\.(\w+)[\w.]*(:\w+)?", text))
        and level.get(named[1], 99) < level.get(name.split(".")[1], -1)
    ]
    assert above == []


def test_modules_are_imported_by_a_computed_name_only_where_users_or_plugins_name_them() -> None:
    found = {
        name
        for name, tree in modules("tunecheck")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", "") or getattr(node.func, "attr", "")) in ("import_module", "__import__")
        and not isinstance(node.args[0], ast.Constant)
    }
    assert found == COMPUTED


def test_one_plugin_imports_another_from_its_top_level() -> None:
    found = {
        f"{package} -> {imported}"
        for package in PLUGINS
        for _, tree in modules(package)
        for imported in imports(tree)
        if imported.startswith("tunecheck_") and imported.partition(".")[0] != package and "." in imported
    }
    assert found == set()


@pytest.mark.parametrize("package", ["tunecheck", *PLUGINS])
def test_a_plugin_s_module_imports_nothing_but_the_interface(package: str) -> None:
    tree = ast.parse((SOURCE / package / "plugin.py").read_text("utf-8"))
    assert set(imports(tree)) == {"tunecheck.plugins"}


@pytest.mark.parametrize("package", PLUGINS)
def test_a_plugin_s_loaders_stand_in_its_own_package(package: str) -> None:
    tree = ast.parse((SOURCE / package / "plugin.py").read_text("utf-8"))
    loaders = [text for text in strings(tree) if re.fullmatch(r"[\w.]+:[\w.]+", text)]
    assert [text for text in loaders if not text.startswith(f"{package}.")] == []


def test_every_plugin_is_registered_and_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    registered = project["project"]["entry-points"]["tunecheck.plugins"].values()
    assert {place.partition(".")[0] for place in registered} == {"tunecheck", *PLUGINS}
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {Path(folder).name for folder in wheel} == {"tunecheck", *PLUGINS}


@pytest.mark.parametrize("stub", sorted(SOURCE.rglob("__init__.pyi")), ids=lambda path: path.parent.name)
def test_every_name_of_a_stub_is_where_the_stub_says(stub: Path) -> None:
    package = import_module(".".join(stub.parent.relative_to(SOURCE).parts))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


@pytest.mark.parametrize("package", PLUGINS)
def test_a_plugin_imports_from_the_core_only_what_its_packages_export(package: str) -> None:
    deep = {
        (name, imported)
        for name, tree in modules(package)
        for imported in imports(tree)
        if imported.startswith("tunecheck.") and "._" in imported
    }
    assert deep == set()


@pytest.mark.parametrize("package", PLUGINS)
def test_a_plugin_imports_no_private_name_of_the_core(package: str) -> None:
    private = {
        (name, alias.name)
        for name, tree in modules(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and re.match(r"tunecheck(?:\.|$)", node.module or "")
        for alias in node.names
        if alias.name.startswith("_") and alias.name != "__version__"
    }
    assert private == set()
