"""Device manager: gives containers the devices that plugins of this node offer (KEP-3573)."""
