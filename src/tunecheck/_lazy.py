"""Lazily loaded names of a package, as listed in the package's stub file.

A package's `__init__.pyi` holds `from ._module import Name as Name`, which type checkers read, too. Its `__init__.py`
holds `__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)`.

So `import tunecheck` loads only this module of the package. `tunecheck.evaluate` loads the module that defines it.
"""

# `python -m tunecheck` imports this module with the current folder on the path, so it imports only built-in modules.
import _ast
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def attach_stub(package: str, file: str) -> "tuple[Callable[[str], object], Callable[[], list[str]], list[str]]":
    """Return `__getattr__`, `__dir__` and `__all__` of a package with the names that its stub file imports."""
    stub = file.removesuffix(".py") + ".pyi"
    loader = vars(sys.modules[package])["__loader__"]  # not open(): the package may be in a zip file
    tree = compile(loader.get_data(stub), stub, "exec", _ast.PyCF_ONLY_AST)

    # For each name in the package, the module that defines it and its name there.
    homes: dict[str, tuple[str, str]] = {}
    assert isinstance(tree, _ast.Module)
    for node in tree.body:
        if isinstance(node, _ast.ImportFrom):
            module = f"{'.' * node.level}{node.module}"
            homes.update((alias.asname or alias.name, (module, alias.name)) for alias in node.names)
    names = sorted(homes)

    def load(name: str) -> object:
        """Import the name from its module on first use, and keep it in the package.

        Raises:
            AttributeError: the package has no such name.
        """
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = homes[name]
        value: object = getattr(import_module(module, package), attribute)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: names, names
