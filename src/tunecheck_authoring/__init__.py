"""Data sets made: from services that stand as simulators, and from failed rows as examples to train on.

author(AuthorPlan(…), backends)        # a validated data set, stage by stage
audit(rows, reader)                    # what is probably wrong with rows
export(run, ExportPlan(…))             # a run's failed rows as training examples
write_simulator(openapi, path)         # a service made from an OpenAPI file; write_recorded: from an MCP server
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
