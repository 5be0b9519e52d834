"""`tunecheck memory`: run, replay and rescore."""
