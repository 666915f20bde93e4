"""The kubelet's own certificates: the first one by a bootstrap token, later ones by the one before, and what its port shows."""
