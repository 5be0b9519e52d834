"""Uploading finished runs to Azure AI Foundry and MLflow."""
