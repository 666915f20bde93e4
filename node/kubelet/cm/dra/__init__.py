"""Dynamic resource allocation on the node: devices of ResourceClaims, made ready by the drivers that offer them."""
