"""The description of every file that Tunecheck writes, and the gate through which all of them are read again.

Whoever writes or reads such a file takes its description from here; `versions` refuses what a later version wrote.
"""
