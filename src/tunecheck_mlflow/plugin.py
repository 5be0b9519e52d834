"""What this package brings to Tunecheck: uploads to MLflow servers."""

from tunecheck.plugins import Plugin

PLUGIN = Plugin("mlflow", "Uploads to MLflow servers.")
