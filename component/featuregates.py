"""Feature gates: which features of a release are on. Each daemon parses ``--feature-gates`` with this and hands the result on.

Rules and messages are those of k8s.io/component-base/featuregate. What gates there are is in ``component.features``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from component.metrics import Registry

ALPHA, BETA, GA, DEPRECATED = "ALPHA", "BETA", "", "DEPRECATED"
_WORD_FOR_ALL = {"AllAlpha": ALPHA, "AllBeta": BETA}
_TRUE, _FALSE = frozenset({"1", "t", "T", "TRUE", "true", "True"}), frozenset({"0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True)
class Feature:
    """One gate as a release has it. ``locked``: it cannot be set to anything but its default. ``needs``: other gates."""

    name: str
    default: bool
    stage: str
    locked: bool = False
    here: bool = False  # whether this code asks it; any other gate is known, and changes nothing
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gates:
    """The features of a release with what was asked for. A value: nothing changes it later."""

    known: Mapping[str, Feature] = field(default_factory=dict)
    values: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    warnings: tuple[str, ...] = ()  # about what was asked for; the daemon logs them when it starts

    def enabled(self, name: str) -> bool:
        """Raises KeyError for a gate that is not in the table: asking for one is a mistake in the code."""
        feature = self.known[name]
        return self.values.get(name, feature.default)

    def expose(self, metrics: Registry) -> None:
        """Upstream's ``kubernetes_feature_enabled``, one series for each gate."""
        gauge = metrics.gauge(
            "kubernetes_feature_enabled",
            "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
            ("name", "stage"),
        )
        for name, feature in self.known.items():
            gauge.labels(name=name, stage=feature.stage).set(int(self.enabled(name)))


def gates(known: Iterable[Feature], wishes: Mapping[str, str]) -> Gates:
    """The gates as the flag's value wants them.

    :raises ValueError: an unknown gate, a value that is no boolean, a locked gate, or one whose needs are off.
    """
    by_name = {feature.name: feature for feature in known}
    asked = {name: _boolean(name, text) for name, text in wishes.items()}
    values: dict[str, bool] = {}
    for word, stage in _WORD_FOR_ALL.items():
        if word in asked:
            # what needs something else follows when that is on as well; a gate by its name says more than its stage
            values |= {name: asked[word] for name, one in by_name.items() if one.stage == stage and not one.locked}
    for name, wanted in asked.items():
        if name not in _WORD_FOR_ALL:
            values[name] = _checked(by_name, name, wanted)
    made = Gates(MappingProxyType(by_name), MappingProxyType(values), tuple(_warnings(by_name, asked)))
    _check_needs(made)
    return made


def _boolean(name: str, text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise ValueError(f'invalid value of {name}={text}, err: strconv.ParseBool: parsing "{text}": invalid syntax')
    return text in _TRUE


def _checked(known: Mapping[str, Feature], name: str, wanted: bool) -> bool:
    feature = known.get(name)
    if feature is None:
        raise ValueError(f"unrecognized feature gate: {name}")
    if feature.locked and wanted != feature.default:
        now = _go(feature.default)
        raise ValueError(f"cannot set feature gate {name} to {_go(wanted)}, feature is locked to {now}")
    return wanted


def _check_needs(made: Gates) -> None:
    for name, feature in made.known.items():
        missing = [other for other in feature.needs if made.enabled(name) and not made.enabled(other)]
        if missing:
            raise ValueError(f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]")


def _warnings(known: Mapping[str, Feature], asked: Mapping[str, bool]) -> list[str]:
    found = []
    for name, wanted in asked.items():
        feature = known.get(name)
        if feature is None:
            continue
        if feature.stage in (GA, DEPRECATED):
            word = "GA" if feature.stage == GA else "deprecated"
            found.append(f"Setting {word} feature gate {name}={_go(wanted)}. It will be removed in a future release.")
        if not feature.here and wanted != feature.default:
            found.append(f"Feature gate {name}={_go(wanted)} is known but changes nothing here.")
    return found


def _go(value: bool) -> str:
    return "true" if value else "false"


def described(known: Sequence[Feature]) -> str:
    """For the flag's help: the gates that can be changed, and that change something."""
    rows = [f"{one.name}=true|false ({one.stage} - default={_go(one.default)})" for one in known if one.here and not one.locked]
    return "Features to switch on or off: AllAlpha, AllBeta, " + ", ".join(sorted(rows))
