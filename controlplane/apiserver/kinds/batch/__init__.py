"""The batch group: work that ends."""
