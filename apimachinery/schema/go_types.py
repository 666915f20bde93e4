"""The Go types that decode errors name. Most follow from the schema; strings with a type of their own are listed.

Used by ``check`` alone, and only when there is an error to word.
"""

from apimachinery.schema.types import ListSchema, ScalarSchema, Schema, StructSchema

_SCALARS = {
    "boolean": "bool",
    "double": "float64",
    "bytes": "[]uint8",
    "quantity": "resource.Quantity",
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
    "intstr": "intstr.IntOrString",
    "any": "runtime.RawExtension",
    "object": "map[string]interface {}",
}

# Struct and field to the name of a type that is a string (or, at the end, a map) underneath.
_NAMED = {
    ("Container", "imagePullPolicy"): "v1.PullPolicy",
    ("Container", "terminationMessagePolicy"): "v1.TerminationMessagePolicy",
    ("ContainerPort", "protocol"): "v1.Protocol",
    ("CronJobSpec", "concurrencyPolicy"): "v1.ConcurrencyPolicy",
    ("DaemonSetUpdateStrategy", "type"): "v1.DaemonSetUpdateStrategyType",
    ("DeploymentStrategy", "type"): "v1.DeploymentStrategyType",
    ("EmptyDirVolumeSource", "medium"): "v1.StorageMedium",
    ("EndpointPort", "protocol"): "v1.Protocol",
    ("EndpointSlice", "addressType"): "v1.AddressType",
    ("HTTPGetAction", "scheme"): "v1.URIScheme",
    ("HTTPIngressPath", "pathType"): "v1.PathType",
    ("HostPathVolumeSource", "type"): "v1.HostPathType",
    ("JobSpec", "completionMode"): "v1.CompletionMode",
    ("LabelSelectorRequirement", "operator"): "v1.LabelSelectorOperator",
    ("NodeSelectorRequirement", "operator"): "v1.NodeSelectorOperator",
    ("ObjectMeta", "uid"): "types.UID",
    ("OwnerReference", "uid"): "types.UID",
    ("PodCondition", "status"): "v1.ConditionStatus",
    ("PodCondition", "type"): "v1.PodConditionType",
    ("PodSpec", "dnsPolicy"): "v1.DNSPolicy",
    ("PodSpec", "preemptionPolicy"): "v1.PreemptionPolicy",
    ("PodSpec", "restartPolicy"): "v1.RestartPolicy",
    ("PodStatus", "phase"): "v1.PodPhase",
    ("Secret", "type"): "v1.SecretType",
    ("ServicePort", "protocol"): "v1.Protocol",
    ("ServiceSpec", "externalTrafficPolicy"): "v1.ServiceExternalTrafficPolicy",
    ("ServiceSpec", "internalTrafficPolicy"): "v1.ServiceInternalTrafficPolicy",
    ("ServiceSpec", "ipFamilies"): "v1.IPFamily",
    ("ServiceSpec", "ipFamilyPolicy"): "v1.IPFamilyPolicy",
    ("ServiceSpec", "sessionAffinity"): "v1.ServiceAffinity",
    ("ServiceSpec", "type"): "v1.ServiceType",
    ("StatefulSetSpec", "podManagementPolicy"): "v1.PodManagementPolicyType",
    ("StatefulSetUpdateStrategy", "type"): "v1.StatefulSetUpdateStrategyType",
    ("Taint", "effect"): "v1.TaintEffect",
    ("Toleration", "effect"): "v1.TaintEffect",
    ("Toleration", "operator"): "v1.TolerationOperator",
    ("TopologySpreadConstraint", "whenUnsatisfiable"): "v1.UnsatisfiableConstraintAction",
    ("VolumeMount", "mountPropagation"): "v1.MountPropagationMode",
    ("ResourceRequirements", "limits"): "v1.ResourceList",
    ("ResourceRequirements", "requests"): "v1.ResourceList",
}
_UNDERLYING = frozenset({"string", "map[string]resource.Quantity"})


def go_type(schema: Schema) -> str:
    """The Go type of a schema."""
    if isinstance(schema, ScalarSchema):
        return _SCALARS.get(schema.kind, schema.kind)
    if isinstance(schema, StructSchema):
        return schema.go_name
    if isinstance(schema, ListSchema):
        return f"[]{go_type(schema.element)}"
    return f"map[string]{go_type(schema.value)}"


def named(struct: str, field: str, plain: str) -> str:
    """The type of ``struct``'s ``field``, where ``plain`` is what the schema alone tells."""
    return _NAMED.get((struct, field), plain) if plain in _UNDERLYING else plain
