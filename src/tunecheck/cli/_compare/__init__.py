"""`tunecheck compare`: its options, and the comparison as text, table and Markdown."""
