"""The command line: `_app` starts a command, each of which stands in the module or room of its name.

A command is a function of its options, one dataclass (`_options`), from which its command line, the keys of `--config`
and what a run records are made. What is heavy is imported when a command runs: help has to come at once.
"""
