"""The built-in kinds: one module each, holding its defaults, validation, columns and subresources. ``catalog`` lists them."""
