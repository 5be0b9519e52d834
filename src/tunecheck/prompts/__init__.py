"""Prompts: `.prompty` files in both dialects, rendered to chat messages that no value can take over."""
