"""Plug-in of Tunecheck: local servers with recorded or simulated answers."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "serve",
    "Local servers with recorded or simulated answers.",
    commands={
        "serve": Extension("tunecheck_serve._cli:serve", "Serve recorded or simulated answers over HTTP until Ctrl-C.")
    },
    own_kinds={"services": {}},
)
