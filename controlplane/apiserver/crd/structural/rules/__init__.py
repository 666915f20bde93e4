"""``x-kubernetes-validations``: rules in CEL of the values of a schema (``pkg/apiserver/schema/cel``).

``checking`` judges the rules of a definition: types, and the most that they can cost. ``programs`` compiles those of a stored
one, ``evaluation`` runs them on an object and its predecessor within a budget. ``declared`` has the types of values in
expressions, ``inputs`` the values, ``estimate`` the costs.
"""
