"""The deployment controller: new ReplicaSets for new templates, and replicas moved from the old to the new."""
