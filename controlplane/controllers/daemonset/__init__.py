"""The daemonset controller: one pod on every node that is eligible."""
