"""Kubernetes' expression language (CEL): compiled once against declared variables, evaluated with a bound on what it may cost.

``environment`` is the door; ``ast`` reads what the evaluator compiled, ``cost`` bounds it, ``values`` and ``library`` have
Kubernetes' types and functions. The evaluator is Google's C++ one: it parses, checks types and evaluates.
"""
