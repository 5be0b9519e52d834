"""Uploading finished runs to Azure AI Foundry and MLflow.

`_uploader` has what all uploads share, `_calls` the requests and their retries, `_record` what was sent where. Others
use `FoundryUploader`, `MlflowUploader` and `Uploaded`.
"""
