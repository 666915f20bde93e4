"""Which devices a claim gets: pure, without the machine around it. ``plugins.dynamic_resources`` asks."""
