"""Checks of paths inside a volume: relative, and never climbing out."""

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError


def local_path(text: str, path: str) -> list[FieldError]:
    """A relative path that never climbs."""
    found = [fieldpath.invalid(path, text, "must be a relative path")] if text.startswith("/") else []
    return found + no_backstep(text, path)


def no_backstep(text: str, path: str) -> list[FieldError]:
    return [fieldpath.invalid(path, text, "must not contain '..'")] if ".." in text.split("/") else []


def file_path(text: str, path: str) -> list[FieldError]:
    """A file that a source writes: names that begin with ``..`` are kept for the writer itself."""
    found = local_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        found.append(fieldpath.invalid(path, text, "must not start with '..'"))
    return found
