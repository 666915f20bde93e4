"""One request and its answer, as every filter and endpoint sees them."""
