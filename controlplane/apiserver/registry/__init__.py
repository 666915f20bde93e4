"""The generic registry: one store for every kind, told apart by strategies."""
