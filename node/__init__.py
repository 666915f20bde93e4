"""What runs on every node: the kubelet and the pod network of its host."""
