"""Makes the image side of a kubelet from its configuration. Called once by ``node.kubelet.assembly``."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from apimachinery.times import format_time
from component import logs
from component.clock import Clock
from component.errors import OperatorError
from component.metrics import Registry
from component.process import RealRunner
from cri.errors import RuntimeServiceError
from cri.interface import ImageService
from node.kubelet.config import KubeletConfig
from node.kubelet.images import credential_config
from node.kubelet.images.credential_plugin import Accounts, Plugin, PluginMetrics, Plugins
from node.kubelet.images.credentials import NodeFiles, node_places
from node.kubelet.images.keyring import Keyring
from node.kubelet.images.pull_records import PullRecords

_PRUNE_PERIOD = 300.0
_log = logs.get(__name__)


def keyring(config: KubeletConfig, accounts: Accounts, metrics: Registry, clock: Clock) -> Keyring:
    """Blocks: reads the configuration. Raises OperatorError for one that cannot be used."""
    files = NodeFiles(node_places(config.root_dir, _home(), Path.cwd()))
    return Keyring(files, plugins(config, accounts, metrics, clock))


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def plugins(config: KubeletConfig, accounts: Accounts, metrics: Registry, clock: Clock) -> Plugins:
    """The programs, each found in the folder of programs. Raises OperatorError."""
    path, programs = config.image_credential_provider_config, config.image_credential_provider_bin_dir
    if path is None or programs is None:
        return Plugins()
    if not programs.is_dir():
        raise OperatorError(f"--image-credential-provider-bin-dir: plugin binary directory {programs} did not exist")
    try:
        tokens = config.features.enabled("KubeletServiceAccountTokenForCredentialProviders")
        providers = credential_config.read(path, tokens=tokens)
    except credential_config.ConfigurationError as error:
        raise OperatorError(f"--image-credential-provider-config {path}: {error}") from None
    counted, runner = PluginMetrics(metrics), RealRunner(clock)
    made = []
    for provider in sorted(providers, key=lambda each: each.name):
        found = shutil.which(programs / provider.name)
        if found is None:
            raise OperatorError(f"plugin binary executable {programs / provider.name} did not exist")
        made.append(Plugin(provider, Path(found), runner, clock, accounts, counted))
    return Plugins(tuple(made))


@dataclass(slots=True)
class RecordKeeper:
    """Loads the records of pulls when the runtime can be asked, and forgets images that are gone."""

    records: PullRecords
    images: ImageService
    clock: Clock

    async def load(self) -> None:
        """Before the first pod. Never raises: without the list of images, unfinished pulls stay noted as they are."""
        try:
            listed = await self.images.list_images()
        except RuntimeServiceError as error:
            _log.warning("Cannot list images", err=error)
            listed = []
        try:
            await self.records.load(listed)
        except OSError as error:
            _log.error("Cannot read the records of pulled images", err=error)

    async def run(self) -> None:
        """Every five minutes, until cancelled."""
        while True:
            await self.clock.sleep(_PRUNE_PERIOD)
            began = format_time(self.clock.now())
            try:
                present = {image.id for image in await self.images.list_images()}
                await self.records.prune(present, began)
            except (RuntimeServiceError, OSError) as error:
                _log.warning("Cannot forget records of pulled images", err=error)


def record_keeper(config: KubeletConfig, images: ImageService, clock: Clock) -> RecordKeeper | None:
    """None where the gate is off."""
    if not config.features.enabled("KubeletEnsureSecretPulledImages"):
        return None
    policy, allowed = config.image_pull_credentials_verification_policy, config.preloaded_images_verification_allowlist
    return RecordKeeper(PullRecords(config.root_dir / "image_manager", policy, allowed, clock), images, clock)
