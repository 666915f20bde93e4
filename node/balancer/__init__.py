"""A small TCP balancer in front of several API servers, for clients that know one address: one on each node, on loopback."""
