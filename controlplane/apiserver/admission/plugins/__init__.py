"""Built-in admission plugins, one a file, independent of one another; ``admission.chain`` orders them."""
