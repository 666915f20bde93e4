"""Making a cluster: certificates, kubeconfigs, the private containerd, images and add-ons. Called by ``cli`` and ansible."""
