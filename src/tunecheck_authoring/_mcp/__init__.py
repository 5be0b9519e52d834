"""MCP servers as simulators: their tools called while a set is authored, their answers recorded.

client   a session with a server
service  the server as a simulator's file, and beside it, asked in any state that is recorded
"""
