"""One volume plugin per file; ``volumes.manager`` lists them in one table."""
