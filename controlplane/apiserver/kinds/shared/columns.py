"""Columns and cell texts that many kinds share, worded as upstream's printers word them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery import labels
from controlplane.apiserver.registry.printing import age
from controlplane.apiserver.registry.strategy import Column

NONE = "<none>"
UNSET = "<unset>"

NAME = Column(
    "Name",
    format="name",
    description="Name must be unique within a namespace. Is required when creating resources, although some resources may "
    "allow a client to request the generation of an appropriate name automatically.",
)
AGE = Column(
    "Age",
    description="CreationTimestamp is a timestamp representing the server time when this object was created. "
    "It is represented in RFC3339 form and is in UTC.",
)
CREATED_AT = Column("Created At", type="date", description="When the object was created.")
DEFAULT = (NAME, CREATED_AT)  # of a kind that upstream has no printer for; cells by ``default_row``
CONTAINERS = Column("Containers", description="Names of each container in the template.", priority=1)
IMAGES = Column("Images", description="Images referenced by each container in the template.", priority=1)
SELECTOR = Column("Selector", description="Label selector for the objects this one stands for.", priority=1)


def wide(name: str, description: str = "", type: str = "string") -> Column:  # noqa: A002 - the field's own name
    return Column(name, type=type, description=description, priority=1)


def age_of(obj: Mapping[str, Any], now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def default_row(obj: Mapping[str, Any]) -> list[Any]:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp", "")]


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A ``metav1.LabelSelector`` as text; ``<none>`` for none or an empty one."""
    try:
        return str(labels.from_label_selector(selector)) or NONE
    except ValueError:
        return "<error>"


def map_text(values: Mapping[str, str] | None) -> str:
    """Labels as ``a=b,c=d``, sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted((values or {}).items())) or NONE


def template_cells(template: Mapping[str, Any]) -> tuple[str, str]:
    """Names and images of a pod template's containers."""
    containers: Sequence[Mapping[str, Any]] = (template.get("spec") or {}).get("containers") or ()
    return ",".join(str(one.get("name", "")) for one in containers), ",".join(str(one.get("image", "")) for one in containers)
