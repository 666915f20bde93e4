"""validatingadmissionpolicy-status: what is wrong with the types in the expressions of policies."""
