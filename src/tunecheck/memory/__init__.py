"""Long-term memory: many tests interleaved in one long conversation, by a scheduler, on a clock of its own."""
