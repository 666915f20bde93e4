"""Plugins of the kubelet: found by their sockets, asked who they are, told whether they are wanted."""
