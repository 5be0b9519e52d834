"""What this package brings to Tunecheck: local servers with recorded, simulated or scripted answers."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "serve",
    "Local servers with recorded, simulated or scripted answers.",
    commands={
        "serve": Extension(
            "tunecheck_serve._cli:serve", "Serve recorded, simulated or scripted answers over HTTP until Ctrl-C."
        )
    },
    own_kinds={"services": {}},
)
