"""From a forwarding plan to one kernel transaction, once per packet filter. They see ``plan`` and ``kernel`` only."""
