"""Make data sets: test sets from simulated services, and training examples from a run's failed rows.

author(AuthorOptions(…), simulators, backends)     # a validated data set, stage by stage
audit(rows, reader)                                # probable mistakes in rows
export(run, ExportOptions(…))                      # a run's failed rows as training examples
write_simulator(openapi, path)                     # a simulator of an OpenAPI file; write_recorded: of an MCP server
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
