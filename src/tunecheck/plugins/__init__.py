"""Plug-ins: what a package brings to Tunecheck, and how it is found by name.

A package registers one module under the entry point `tunecheck.plugins`. The module imports nothing but this package
and holds a `Plugin`: names, one-line helps, and where each thing is loaded from. The core registers its own parts the
same way. docs/plugins.md shows a whole plug-in.

    _interface    Plugin, Extension, and the protocols of uploaders and mirrors
    _names        the installed plug-ins, and extensions by kind and name, also from files of the workspace
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
