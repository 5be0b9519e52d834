"""Tool definitions, and checking a call's arguments against them."""
