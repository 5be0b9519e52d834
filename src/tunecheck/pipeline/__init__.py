"""The pipeline: from rows to verdicts. It knows no concrete evaluator and no concrete endpoint."""
