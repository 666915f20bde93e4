"""The resource metrics API, ``metrics.k8s.io/v1beta1``: what `kubectl top` and autoscalers read. ``samples`` understands what
a kubelet says, ``source`` asks all of them when somebody asks here, ``stores`` has the two resources. Nothing is stored."""
