"""Upload to Azure AI Foundry, projects of both kinds."""
