"""The formats of the GoodAI LTM Benchmark: configurations, logs, replay and scores of its runs."""
