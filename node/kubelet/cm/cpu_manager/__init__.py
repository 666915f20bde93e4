"""CPU manager: containers of guaranteed pods that ask for whole CPUs own them, all others share the rest (KEP-3570)."""
