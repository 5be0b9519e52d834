"""BFCL's checks, usable by themselves: verdicts of single rows, and scores of result files.

check_single_turn(row, result, compat=True)    # rows of `bfcl:simple_python` and the like
check_multi_turn(row, result, compat=True)     # rows of `bfcl:multi_turn_base` and the like
score_results(path)                            # a result file, or a tree of them
"""
