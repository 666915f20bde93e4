"""Which kinds and versions are served: all stable ones, unless ``--runtime-config`` says otherwise. A pure function.

A kind that belongs to a feature gate needs that gate as well: ``--runtime-config`` alone does not bring it, as upstream.

Keys are upstream's: ``api/all``, ``api/ga``, ``api/beta``, ``api/alpha``, ``GROUP/VERSION`` (``v1`` or ``api/v1`` for the
core) and ``GROUP/VERSION/RESOURCE``; the more exact one wins. A version that is switched off loses nothing: objects are
stored in one version, and every other version shows them.
"""

from collections.abc import Iterable, Mapping, Sequence

from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane.apiserver.registry.strategy import ResourceInfo, Strategy

_STAGES = ("ga", "beta", "alpha")
_TRUE, _FALSE = ("true", "1", "t", ""), ("false", "0", "f")


def stage(version: str) -> str:
    """``ga``, ``beta`` or ``alpha``."""
    return next((word for word in ("alpha", "beta") if word in version), "ga")


def select(kinds: Sequence[Strategy], runtime_config: Mapping[str, str], features: Gates = DEFAULTS) -> list[Strategy]:
    """The kinds to serve. Raises ValueError, saying what to write, for keys that name nothing and values that are no boolean."""
    wishes = parse(runtime_config, [kind.info for kind in kinds])
    return [kind for kind in kinds if _wanted(kind.info, wishes) and all(features.enabled(gate) for gate in kind.gates)]


def parse(runtime_config: Mapping[str, str], known: Iterable[ResourceInfo]) -> dict[str, bool]:
    """The flag's value with booleans. Raises ValueError."""
    infos = list(known)
    versions = {info.gvk.api_version for info in infos}
    resources = {f"{info.gvk.api_version}/{info.plural}" for info in infos}
    names = {"api/all", *(f"api/{word}" for word in _STAGES), *versions, *resources}
    wishes: dict[str, bool] = {}
    for given, value in runtime_config.items():
        name = "v1" + given.removeprefix("api/v1") if given == "api/v1" or given.startswith("api/v1/") else given
        if name not in names:
            raise ValueError(
                f"--runtime-config: {given!r} is no group/version that this server has, nor one of api/all, api/ga..."
            )
        if value.lower() not in _TRUE + _FALSE:
            raise ValueError(f"--runtime-config: {given}={value}: write true or false")
        wishes[name] = value.lower() in _TRUE
    return wishes


def _wanted(info: ResourceInfo, wishes: Mapping[str, bool]) -> bool:
    version = info.gvk.api_version
    for key in (f"{version}/{info.plural}", version, f"api/{stage(info.gvk.version)}", "api/all"):
        if key in wishes:
            return wishes[key]
    return stage(info.gvk.version) == "ga"


def stored(kinds: Sequence[Strategy], served: Iterable[Strategy]) -> list[Strategy]:
    """The kinds that the server keeps caches of: those of ``served`` in the version they are stored in, and every stable one.

    The server itself reads roles, budgets and quotas whether clients may see them or not.
    """
    needed = {(kind.stored_as or kind.info).gvr for kind in served}
    own = [kind for kind in kinds if kind.stored_as is None]
    return [kind for kind in own if stage(kind.info.gvk.version) == "ga" or kind.info.gvr in needed]
