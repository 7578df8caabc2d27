"""What a downstream package asks of the product: read from its files, nothing is imported."""
