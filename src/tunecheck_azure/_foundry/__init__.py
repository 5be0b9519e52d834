"""Upload to Azure AI Foundry: to Foundry projects and to hub projects."""
