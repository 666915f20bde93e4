"""CRI v1 as a client: what the kubelet says to containerd. Speaks CRI, knows nothing of pods as the API has them."""
