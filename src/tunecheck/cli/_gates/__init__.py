"""Gates on a run's metrics, and the files that a pipeline reads of them."""
