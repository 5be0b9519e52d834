"""Plug-ins: what a package brings to Tunecheck, and how it is found by name.

A package registers one module under the entry point `tunecheck.plugins`. The module imports nothing but this package
and holds a `Plugin`: names, one-line helps, and where each thing is loaded from. The core registers its own parts the
same way. docs/plugins.md shows a whole plug-in.

    _interface    Plugin, Extension, and the protocols that extensions satisfy
    _installed    the plug-ins of this environment
    _names        extensions by kind and name, installed ones and files of the workspace
    _files        files of the workspace as modules
"""

from tunecheck._lazy import attach_stub
from tunecheck.plugins._files import WORKSPACE_MODULES, load_file, offered_by
from tunecheck.plugins._installed import AbsentPlugin, absent_plugins, command_groups, installed_plugins, kinds
from tunecheck.plugins._interface import (
    ClusterRule,
    Code,
    Extension,
    Figures,
    MakeTarget,
    MakeUploader,
    ObjectionRule,
    OpenMirror,
    PairTable,
    Panel,
    Plugin,
    RunnerLike,
    RunSource,
    UploaderLike,
)
from tunecheck.plugins._names import (
    Candidate,
    absence_hint,
    added_options,
    check,
    cluster_rules,
    codes,
    dialect,
    discover,
    figures,
    find,
    load,
    mirror,
    objection_rules,
    panels,
    runner,
    sources,
    tables,
    target,
    uploader,
)

__all__ = [
    "WORKSPACE_MODULES",
    "AbsentPlugin",
    "Candidate",
    "ClusterRule",
    "Code",
    "Extension",
    "Figures",
    "MakeTarget",
    "MakeUploader",
    "ObjectionRule",
    "OpenMirror",
    "PairTable",
    "Panel",
    "Plugin",
    "RunSource",
    "RunnerLike",
    "UploaderLike",
    "absence_hint",
    "absent_plugins",
    "added_options",
    "attach_stub",
    "check",
    "cluster_rules",
    "codes",
    "command_groups",
    "dialect",
    "discover",
    "figures",
    "find",
    "installed_plugins",
    "kinds",
    "load",
    "load_file",
    "mirror",
    "objection_rules",
    "offered_by",
    "panels",
    "runner",
    "sources",
    "tables",
    "target",
    "uploader",
]
