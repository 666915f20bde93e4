"""The pod network of one host; packet rules belong to netproxy."""
