"""Upload to any MLflow server."""
