"""`tunecheck check`: finds out how a model is served, with test questions that have known answers."""
