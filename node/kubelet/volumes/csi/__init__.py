"""CSI: volumes of drivers that run as pods and are spoken to through sockets on the node."""
