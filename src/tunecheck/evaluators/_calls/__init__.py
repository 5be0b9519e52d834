"""Evaluators of function calls: functions, arguments, whole rows, BFCL's check."""
