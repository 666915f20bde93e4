"""Objects in etcd (API v3): ``backend`` is the door, ``members`` the connections, ``watch`` the one stream of changes."""
