"""What all talk over HTTP needs."""
