"""What upstream's history tells of a patch: what it was made for, whether upstream took it, who changed its lines."""
