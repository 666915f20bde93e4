"""Admission policies: rules in CEL that are objects of the cluster."""
