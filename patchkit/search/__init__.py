"""Which commit next: pure decisions over a graph, no I/O, no clock, no git."""
