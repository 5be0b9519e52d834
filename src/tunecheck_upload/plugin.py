"""Plug-in of Tunecheck: uploads of finished runs."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "upload",
    "Uploads of finished runs.",
    options={"upload": Extension("tunecheck_upload._cli:EvaluateUploadOptions", "Upload the run when it is done.")},
    commands={
        "upload": Extension("tunecheck_upload._cli:upload", "Upload finished runs to Azure AI Foundry or MLflow.")
    },
)
