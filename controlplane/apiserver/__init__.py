"""The API server: the only door to the store. Files are listed in docs/architecture.md in the order a request meets them."""
