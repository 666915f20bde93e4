"""CronJobs: suspended, missing their times, held back by a run that lasts, or running jobs that fail."""

from apimachinery.meta import Object, is_deleting, name_of, namespace_of
from why.cause import Cause, Explanation, State
from why.explainers import job as jobs
from why.explainers.deletion import terminating
from why.snapshot import Snapshot
from why.words import ago, few, flag, latest, subject

_BAD = ("FailedCreate", "TooManyMissedTimes", "UnparseableSchedule", "InvalidSchedule", "UnknownTimeZone", "MissSchedule")


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    last = ago(snapshot, status.get("lastScheduleTime"))
    summary = f"schedule {spec.get('schedule')!r}, last run {last + ' ago' if last else 'never'}"
    if is_deleting(obj):
        return terminating(obj)
    causes: list[Cause] = []
    if spec.get("suspend"):
        step = f'kubectl patch cronjob {name_of(obj)}{flag(obj)} -p \'{{"spec":{{"suspend":false}}}}\''
        causes.append(Cause("spec.suspend is true: no jobs are made", step=step))
    causes += _missed(snapshot, obj)
    active = [str(each.get("name")) for each in status.get("active") or ()]
    if active and spec.get("concurrencyPolicy") == "Forbid":
        causes += _held(snapshot, obj, active)
    causes += _last_job(snapshot, obj, skip=active if spec.get("concurrencyPolicy") == "Forbid" else ())
    return Explanation(subject(obj), namespace_of(obj), State.UNWELL if causes else State.WELL, summary, tuple(causes))


def _missed(snapshot: Snapshot, obj: Object) -> list[Cause]:
    found = []
    for reason in _BAD:
        said = snapshot.events(obj, reason)
        if not said:
            continue
        match reason:
            case "TooManyMissedTimes":
                step = "set or decrease startingDeadlineSeconds, and check for clock skew"
            case "MissSchedule":
                step = "raise startingDeadlineSeconds: the controller came too late"
            case "FailedCreate":
                step = f"correct jobTemplate: kubectl edit cronjob {name_of(obj)}{flag(obj)}"
            case _:
                step = f"correct schedule or timeZone: kubectl edit cronjob {name_of(obj)}{flag(obj)}"
        found.append(Cause(f"{reason} while making jobs", latest(snapshot, obj, reason), step))
    return found


def _held(snapshot: Snapshot, obj: Object, active: list[str]) -> list[Cause]:
    """concurrencyPolicy Forbid: the next run waits for this one. Only told of runs that are stuck."""
    found = []
    for name in active:
        job = snapshot.get("Job", name, namespace_of(obj))
        told = jobs.explain(snapshot, job) if job is not None else None
        if told is not None and told.state is State.UNWELL:
            says = f"concurrencyPolicy is Forbid and {few(active)} is not finished: no other run starts"
            found.append(Cause(says, latest(snapshot, obj, "JobAlreadyActive"), causes=(told.as_cause(),)))
    return found


def _last_job(snapshot: Snapshot, obj: Object, skip: list[str] | tuple[()]) -> list[Cause]:
    owned = [each for each in snapshot.owned(obj, "Job") if name_of(each) not in skip]
    if not owned:
        return []
    told = jobs.explain(snapshot, owned[-1])
    return [told.as_cause()] if told.state is State.UNWELL else []
