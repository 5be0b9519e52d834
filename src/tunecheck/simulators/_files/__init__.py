"""GorillaFileSystem: a file tree, its volume, and the text commands over it."""
