"""Pod specs and pod templates: their defaults and validation, shared by Pods and by every kind that makes Pods."""

from controlplane.apiserver.kinds.core.pod_template.defaults import default_pod_spec, default_template
from controlplane.apiserver.kinds.core.pod_template.spec import validate_pod_spec, validate_template, validate_template_metadata
from controlplane.apiserver.kinds.core.pod_template.warnings import name_warning, pod_warnings, template_warnings

__all__ = [
    "default_pod_spec",
    "default_template",
    "name_warning",
    "pod_warnings",
    "template_warnings",
    "validate_pod_spec",
    "validate_template",
    "validate_template_metadata",
]
