"""`tunecheck plugins`: what can be named in a command or a definition, and where it comes from."""

from __future__ import annotations

import sys

from tunecheck._json import JSON
from tunecheck._messages import clean
from tunecheck.cli._console import console, print_json
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import command
from tunecheck.cli._shared_options import JsonOptions


@command(JsonOptions)
def plugins(options: JsonOptions, invocation: Invocation) -> int:
    """List evaluators, endpoint kinds, simulators and data sets: installed ones, and this workspace's."""
    from tunecheck._plugins import GROUPS, discover

    plugins_by_sort = {group.rpartition(".")[2]: discover(group) for group in GROUPS}
    if options.json:
        listed: dict[str, JSON] = {
            sort: [{"name": plugin.name, "origin": plugin.origin} for plugin in group]
            for sort, group in plugins_by_sort.items()
        }
        print_json(listed)
        return 0
    _show(
        {sort: [(plugin.name, plugin.origin) for plugin in group] for sort, group in plugins_by_sort.items() if group}
    )
    return 0


def _show(plugins_by_sort: dict[str, list[tuple[str, str]]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    for sort, plugins_of_sort in plugins_by_sort.items():
        table.add_row(Text(sort, "bold"), "")
        for name, origin in plugins_of_sort:
            table.add_row(Text(f"  {clean(name, 60)}"), Text(clean(origin), "dim"))
    console(sys.stdout).print(table)
