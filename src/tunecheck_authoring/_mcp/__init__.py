"""MCP servers as simulators: tools are called while a data set is authored, and answers are recorded.

client   a session with a server
service  writes the simulator's file, and asks the server in any recorded state
"""
