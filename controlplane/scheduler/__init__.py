"""The scheduler: finds every new pod a node. Queue > filter > score > reserve > bind."""
