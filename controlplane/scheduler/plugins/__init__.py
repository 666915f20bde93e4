"""One module per plugin, named as in the configuration; ``catalog`` lists them."""
