"""The node's own credentials: its docker configuration, then the programs of its owner. ``pull`` asks after the pod's secrets."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from node.kubelet.images.credential_plugin import Plugins
from node.kubelet.images.credentials import Found, NodeFiles, bare_name


@dataclass(frozen=True, slots=True)
class Keyring:
    files: NodeFiles
    plugins: Plugins

    async def credentials(self, image: str, pod: Mapping[str, Any]) -> list[Found]:
        """Never raises. The programs know images by the names in the pods, without tag and digest."""
        found = await asyncio.to_thread(self.files.for_image, image)
        return [*found, *(await self.plugins.credentials(bare_name(image), pod))]
