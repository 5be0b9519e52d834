"""`tunecheck serve`: local servers with recorded, simulated or scripted answers, and an agent with a memory."""
