"""MathAPI: arithmetic with BFCL's logarithms."""
