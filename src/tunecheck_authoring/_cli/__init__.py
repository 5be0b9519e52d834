"""The commands `datasets author`, `datasets audit` and `datasets export`."""
