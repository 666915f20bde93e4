"""CustomResourceDefinition: its life (``strategy``), the form that is judged (``internal``) and the judges beside it."""

from controlplane.apiserver.kinds.apiextensions.customresourcedefinition.strategy import CustomResourceDefinitionStrategy

__all__ = ["CustomResourceDefinitionStrategy"]
