"""Gates on a run: on its metrics, and against another run."""
