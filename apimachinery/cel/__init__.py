"""Kubernetes' expression language (CEL): compiled once against declared variables, evaluated with a bound on what it may cost.

``environment`` is the door; ``ast`` reads what the library compiled, ``cost`` bounds it, ``library`` has Kubernetes' functions.
The library is Google's C++ one: it parses, checks types and evaluates.
"""
