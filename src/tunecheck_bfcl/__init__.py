"""BFCL's checks: verdicts of single rows, strictly or exactly as the leaderboard judges, and scores of result files.

Evaluators take `_single_turn.check_single_turn` and `_multi_turn.check_multi_turn`, the command line
`_scoring.score_results` and `_ground_truth.ground_truth_lines`.
"""
