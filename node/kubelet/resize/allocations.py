"""What each pod of this node has been given, and what became of it in the runtime.

The pod manager counts by it, every step of a pod's worker begins with :meth:`Allocations.settle`. Containers carry what they
were made with (an annotation in the runtime), so only pods that were resized have a file, which a restarted kubelet reads.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apimachinery.meta import uid_of
from component import logs
from node.kubelet.resize import plan
from node.kubelet.resize.plan import ByContainer, Pod, Refusal, Resources
from node.kubelet.runtime import names
from node.kubelet.runtime.observed import ObservedPod, State

FILE = "resources.json"
_log = logs.get(__name__)


@dataclass(slots=True)
class Record:
    """One pod. ``error``: why the last try to actuate failed."""

    allocated: dict[str, Resources] = field(default_factory=dict)
    actuated: dict[str, Resources] = field(default_factory=dict)
    refusal: Refusal | None = None
    error: str = ""

    def lagging(self) -> list[str]:
        """Containers whose running instance has not got what is allocated."""
        return [name for name, given in self.allocated.items() if not plan.same(given, self.actuated.get(name, given))]


class Allocations:
    """One per kubelet. Only the event loop touches it."""

    def __init__(
        self, pod_dir: Callable[[str], Path], allocatable: Callable[[], Mapping[str, str]], fixed: plan.Fixed | None = None
    ) -> None:
        self._fixed = fixed or plan.Fixed()
        self._pod_dir = pod_dir
        self._allocatable = allocatable
        self._records: dict[str, Record] = {}
        self._others: Callable[[str], Iterable[Pod]] = lambda uid: ()

    def count_against(self, others: Callable[[str], Iterable[Pod]]) -> None:
        """``others(uid)``: the pods, as allocated, beside that one."""
        self._others = others

    def view(self, pod: Pod) -> Pod:
        """The pod with what it has been given."""
        record = self._records.get(uid_of(pod))
        return plan.view(pod, record.allocated) if record is not None else pod

    def record(self, uid: str) -> Record | None:
        return self._records.get(uid)

    def pending(self) -> list[str]:
        """Pods that wait until somebody else needs less."""
        return [uid for uid, record in self._records.items() if record.refusal and record.refusal.reason == plan.DEFERRED]

    def settle(self, pod: Pod, observed: ObservedPod) -> Pod:
        """Allocate what the spec asks for if the node can give it; the pod with what it has been given."""
        uid = uid_of(pod)
        record = self._records.get(uid)
        if record is None:
            record = self._records[uid] = self._remembered(pod, observed)
        wanted = plan.asked(pod)
        if all(plan.same(given, record.allocated.get(name, given)) for name, given in wanted.items()):
            record.refusal = None
        else:
            record.refusal = plan.refuse(pod, self._others(uid), self._allocatable(), record.allocated, self._fixed)
            if record.refusal is None:
                record.allocated = dict(wanted)
                self._keep(uid, record)
        return plan.view(pod, record.allocated)

    def actuated(self, uid: str, given: ByContainer) -> None:
        """Those containers now run with those resources."""
        record = self._records.get(uid)
        if record is None:
            return
        changed = {name: each for name, each in given.items() if not plan.same(each, record.actuated.get(name, each))}
        record.actuated.update(given)
        if not record.lagging():
            record.error = ""
        if changed:
            self._keep(uid, record)

    def forget(self, uid: str) -> None:
        """The pod is gone; its folder, and the file in it, go with it."""
        self._records.pop(uid, None)

    def _remembered(self, pod: Pod, observed: ObservedPod) -> Record:
        """From the file of a pod that was resized, else from what its containers were made with, else from its spec."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads((self._pod_dir(uid_of(pod)) / FILE).read_bytes())
            return Record(dict(kept["allocated"]), dict(kept["actuated"]))
        made = {name: made_with(observed, name) or given for name, given in plan.asked(pod).items()}
        return Record(dict(made), dict(made))

    def _keep(self, uid: str, record: Record) -> None:
        """A few hundred bytes, at a resize only. Where it cannot be written, a restart of this kubelet repeats the resize."""
        target = self._pod_dir(uid) / FILE
        temporary = target.with_suffix(".tmp")
        try:
            temporary.write_text(json.dumps({"allocated": record.allocated, "actuated": record.actuated}))
            os.replace(temporary, target)
        except OSError as error:
            _log.warning("Cannot remember a pod's resources", uid=uid, err=error)


def made_with(observed: ObservedPod, name: str) -> Resources | None:
    """What a container that exists was made with; None where there is none, or it does not say."""
    latest = observed.latest(name)
    if latest is None or latest.state is not State.RUNNING:
        return None
    try:
        found: Any = json.loads(latest.annotations.get(names.RESOURCES, ""))
        return {key: dict(found.get(key) or {}) for key in ("requests", "limits")}
    except (ValueError, AttributeError, TypeError):
        return None
