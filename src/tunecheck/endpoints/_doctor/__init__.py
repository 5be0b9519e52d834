"""`tunecheck check`: finds out how a model is served, by questions of its own with known answers."""
