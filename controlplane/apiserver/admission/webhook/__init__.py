"""Admission by servers of the cluster's users: MutatingAdmissionWebhook and ValidatingAdmissionWebhook."""
