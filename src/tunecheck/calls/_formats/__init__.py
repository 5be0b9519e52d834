"""The formats in which function calls come and go: read from any, written in any."""
