"""The eight simulated services of BFCL."""
