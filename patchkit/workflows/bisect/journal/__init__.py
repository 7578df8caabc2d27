"""The journal of a bisect: what it holds, what the search sees of it, and whether its decisions can be made again."""
