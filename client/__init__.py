"""How every daemon but the API server reaches the cluster: REST, informers, work queues, leases and events."""
