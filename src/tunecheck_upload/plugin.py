"""What this package brings to Tunecheck: uploads of finished runs."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "upload",
    "Uploads of finished runs.",
    commands={
        "upload": Extension("tunecheck_upload._cli:upload", "Upload finished runs to Azure AI Foundry or MLflow.")
    },
)
