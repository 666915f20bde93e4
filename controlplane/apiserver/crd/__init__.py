"""Custom resources: kinds that a CustomResourceDefinition describes and this server then serves."""
