"""Search with verdicts that hold: bisection on a graph, with skips."""
