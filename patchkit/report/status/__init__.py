"""How a series stands, for people and for programs."""
