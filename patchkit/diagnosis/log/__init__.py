"""A log, read: bytes → lines of many processes → the failures that each of them tells, and what kind they are of."""
