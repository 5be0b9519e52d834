"""Plug-in of Tunecheck: uploads to MLflow servers."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "mlflow",
    "Uploads to MLflow servers.",
    extra="mlflow",
    uploaders={"mlflow": Extension("tunecheck_mlflow._upload:MlflowUploader", "An MLflow server, by its address.")},
)
