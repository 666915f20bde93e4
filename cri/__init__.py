"""CRI v1 as a client: what the kubelet says to containerd. Speaks CRI, knows nothing of pods as the API has them."""

import os

# gRPC's fork handlers run in the child of every fork of this process, also in one that only wants to exec (uvloop starts
# subprocesses by fork) and abort there when they meet a poller at work. We never go on in a forked child. The library
# reads this when it is first imported, and this package is the only one of the node that imports it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
