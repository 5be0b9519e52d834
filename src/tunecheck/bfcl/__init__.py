"""BFCL's checks: verdicts of single rows (`_single_turn`, `_multi_turn`), and scores of result files (`_scoring`)."""
