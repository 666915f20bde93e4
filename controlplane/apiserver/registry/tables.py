"""Rows for ``kubectl get``: a kind's columns and cells in the form of meta.k8s.io/v1 Tables."""

from datetime import datetime
from typing import Any

from controlplane.apiserver.registry.strategy import Column, Strategy

Object = dict[str, Any]


def column_definitions(columns: tuple[Column, ...]) -> list[Object]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns
    ]


def row(strategy: Strategy, obj: Object, now: datetime, shown: Object | None) -> Object:
    """One row; ``shown`` is what goes into its ``object``: the metadata, the whole object, or nothing."""
    made: Object = {"cells": strategy.row(obj, now)}
    if conditions := strategy.row_conditions(obj):
        made["conditions"] = list(conditions)
    if shown is not None:
        made["object"] = shown
    return made
