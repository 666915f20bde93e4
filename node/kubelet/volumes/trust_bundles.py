"""clusterTrustBundle: the certificates of authorities, gathered from one bundle or from all of a signer. For ``projected``."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from apimachinery.errors import StatusError
from node.kubelet.interface import ObjectSource, VolumeError

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


async def anchors(objects: ObjectSource, source: Mapping[str, Any]) -> bytes:
    """The PEM file for one source; empty for what is missing and ``optional``. Raises VolumeError or StatusError."""
    try:
        found = await _bundles(objects, source)
    except StatusError as error:
        if error.code != 404:
            raise
        if source.get("optional"):
            return b""
        raise VolumeError(f'clustertrustbundle "{source.get("name") or source.get("signerName")}" not found') from error
    if not found and not source.get("optional"):
        raise VolumeError("combination of signerName and labelSelector matched zero ClusterTrustBundles")
    return merged(str((bundle.get("spec") or {}).get("trustBundle") or "") for bundle in found)


async def _bundles(objects: ObjectSource, source: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if source.get("name"):
        return [await objects.trust_bundle(str(source["name"]))]
    selector = source.get("labelSelector")
    if selector is None:
        return []  # no selector selects nothing, an empty one everything
    return list(await objects.trust_bundles(str(source.get("signerName") or ""), selector))


def merged(texts: Iterable[str]) -> bytes:
    """Each certificate once; sorted, so that the order in which bundles came cannot matter to anybody. Pure."""
    blocks = {"\n".join(line.strip() for line in block.splitlines()) for text in texts for block in _BLOCK.findall(text)}
    return "".join(f"{block}\n" for block in sorted(blocks)).encode()
