"""Send the same objects to this API server and to upstream's, and print where the answers differ.

    scripts/compare_with_upstream.py https://127.0.0.1:6443 TOKEN https://127.0.0.1:16443 TOKEN [KIND ...]
    scripts/compare_with_upstream.py --corpus https://127.0.0.1:16443 TOKEN [FOLDER ...]

For every object of ``compare_objects.jsonl`` it posts, as a dry run, the object itself and hundreds of mutations: each field
left out, emptied, doubled, made too long or out of range. Both tokens must belong to ``system:masters``. Any version of
kube-apiserver will do: it finds differences, people decide which of them are differences between versions. Against v1.20.2
about 2,900 objects are compared; ``KNOWN`` names what is left for a reason. Start upstream without the ServiceAccount
admission plug-in, and give this server's namespace ``default`` its ServiceAccount.

The second form lets upstream judge the verdicts written down in ``tests/corpus``, which the tests hold this server to. A
difference is printed unless the case says, in its ``v1.20:`` line, what that version did instead and since when it is otherwise.
Start v1.20 with ``--runtime-config=api/all=true`` and without the plug-ins ServiceAccount, Priority and DefaultTolerationSeconds.
"""

import copy
import http.client
import json
import re
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.corpus.cases import Case, cases, collection

Object = dict[str, Any]
Path_ = tuple[str | int, ...]

CLUSTER_SCOPED = frozenset(
    {
        "Namespace",
        "Node",
        "IngressClass",
        "ClusterRole",
        "ClusterRoleBinding",
        "PriorityClass",
        "StorageClass",
        "CSIDriver",
        "CSINode",
        "RuntimeClass",
    }
)
PLURALS = {
    "Endpoints": "endpoints",
    "Ingress": "ingresses",
    "IngressClass": "ingressclasses",
    "NetworkPolicy": "networkpolicies",
    "PriorityClass": "priorityclasses",
    "StorageClass": "storageclasses",
    "RuntimeClass": "runtimeclasses",
}
BAD_VALUES: dict[type, list[Any]] = {str: ["", "A_b!", "x" * 300], int: [-1, 0, 70000]}

KNOWN = (  # texts of differences that are differences of versions
    "environment variable name must consist",  # 1.34 relaxed the names
    "hostAliases",  # paths gained positions
    "letter or number (a-z, 0-9)",  # reworded
    "matchExpressions.match",  # 1.21 mended the path of pod affinity selectors
    "must be valid IP address",
    "not a valid CIDR",
    "256 characters",  # search lists may be longer
    "ExternalTrafficPolicy",
    "container.seccomp.security",  # annotations of before 1.27
    "deprecated.daemonset",
    "invalid label selector",  # values of selectors are checked one by one now
    "controller-uid",  # 1.27 prefixed the labels of Jobs
    "kubernetes.io/metadata.name",  # 1.21
)
UNCOMPARED = frozenset(
    {
        # of each server's own making
        *("uid", "creationTimestamp", "resourceVersion", "managedFields", "selfLink", "generation", "namespace"),
        *("clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"),
        # newer than the version compared with
        *("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "topologyKeys", "allocateLoadBalancerNodePorts"),
        *("preemptionPolicy", "persistentVolumeClaimRetentionPolicy", "scope"),
        *("completionMode", "suspend", "podReplacementPolicy"),
    }
)

OLDER_VERSIONS = {  # what v1.20 calls the kinds that have become stable since, with the same fields
    "batch/v1 CronJob": "batch/v1beta1",
    "policy/v1 PodDisruptionBudget": "policy/v1beta1",
    "discovery.k8s.io/v1 EndpointSlice": "discovery.k8s.io/v1beta1",
    "autoscaling/v2 HorizontalPodAutoscaler": "autoscaling/v2beta2",
    "storage.k8s.io/v1 CSIStorageCapacity": "storage.k8s.io/v1alpha1",
    "flowcontrol.apiserver.k8s.io/v1 FlowSchema": "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration": "flowcontrol.apiserver.k8s.io/v1beta1",
}


class Server:
    """One API server, over one connection."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # both are test servers on this machine
        self._connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=context)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(self, path: str, obj: Object) -> tuple[int, Object]:
        return self.send("POST", path, obj)

    def send(self, method: str, path: str, obj: Object, kind: str = "application/json") -> tuple[int, Object]:
        self._connection.request(method, path, json.dumps(obj), {**self._headers, "Content-Type": kind})
        answer = self._connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if body.startswith(b"{") else {"message": body.decode()}


def path_of(obj: Object) -> str:
    """The collection the object goes to."""
    group = obj["apiVersion"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    plural = PLURALS.get(obj["kind"], obj["kind"].lower() + "s")
    return f"{root}/{plural}" if obj["kind"] in CLUSTER_SCOPED else f"{root}/namespaces/default/{plural}"


def mutations(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, str, Any]]:
    """(where, what to do, with which value) for every place in an object."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if path or key not in ("apiVersion", "kind"):
                yield (*path, key), "delete", None
                yield from mutations(inner, (*path, key))
    elif isinstance(value, list):
        if value:
            yield path, "double", None
        yield path, "set", []
        for position, inner in enumerate(value):
            yield from mutations(inner, (*path, position))
    else:
        for bad in BAD_VALUES.get(type(value), []):
            yield path, "set", bad


def mutated(obj: Object, path: Path_, action: str, value: Any) -> Object:
    result = copy.deepcopy(obj)
    target: Any = result
    for step in path[:-1]:
        target = target[step]
    if action == "delete":
        del target[path[-1]]
    elif action == "double":
        target[path[-1]].append(copy.deepcopy(target[path[-1]][0]))
    else:
        target[path[-1]] = value
    return result


def comparable(value: Any) -> Any:
    """Without zero values, which Go leaves out, and without what each server makes up."""
    if isinstance(value, dict):
        inner = {key: comparable(one) for key, one in value.items() if key not in UNCOMPARED}
        return {key: one for key, one in inner.items() if one not in (None, "", 0, False) and one != {} and one != []}
    return [comparable(one) for one in value] if isinstance(value, list) else value


def causes(status: Object) -> set[tuple[str, str]]:
    """Field and message of every cause, with values and orders that differ by version brought into one form."""
    found = set()
    for cause in (status.get("details") or {}).get("causes") or [{"message": status.get("message", "")}]:
        text = re.sub(r"Invalid value: (?!\").*?: (?=[a-z`])", "Invalid value: X: ", cause.get("message", ""), flags=re.DOTALL)
        text = re.sub(r"(no more than \d+) characters", r"\1 bytes", text)
        head, mark, choices = text.partition("supported values: ")
        found.add((cause.get("field", ""), head + mark + ", ".join(sorted(choices.split(", ")))))
    return found


def without_values(found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Values are printed in several forms (JSON, Go structs, pointers): what is said about them counts."""
    return {
        (field, re.sub(r"(Invalid|Unsupported|Duplicate) value: .*?(: (?=[a-z`A-Z])|$)", r"\1 value: ", text, flags=re.DOTALL))
        for field, text in found
    }


def differences(ours: tuple[int, Object], theirs: tuple[int, Object]) -> list[str]:
    if ours[0] == theirs[0] == 400:
        return []  # both cannot decode it; the words of the decoders changed often
    if ours[0] != theirs[0]:
        return [f"ours {ours[0]} {ours[1].get('message', '')}", f"upstream {theirs[0]} {theirs[1].get('message', '')}"]
    if ours[0] >= 400:
        mine, other = causes(ours[1]), causes(theirs[1])
        if without_values(mine) == without_values(other):
            return []
        return [
            *(f"only ours: {field}: {text}" for field, text in sorted(mine - other)),
            *(f"only upstream: {field}: {text}" for field, text in sorted(other - mine)),
        ]
    mine, other = comparable(ours[1]), comparable(theirs[1])
    return [] if mine == other else list(object_differences(mine, other, ""))


def object_differences(mine: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(other, dict):
        for key in sorted(mine.keys() | other.keys()):
            if mine.get(key) != other.get(key):
                yield from object_differences(mine.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        for position, (left, right) in enumerate(zip(mine, other, strict=True)):
            if left != right:
                yield from object_differences(left, right, f"{path}[{position}]")
    else:
        yield f"{path}: ours {json.dumps(mine)}, upstream {json.dumps(other)}"


def judged(case: Case, server: Server) -> tuple[int, Object] | None:
    """Upstream's answer to one case; None for kinds that it does not know."""
    obj = copy.deepcopy(case.base or case.body)
    older = OLDER_VERSIONS.get(f"{obj['apiVersion']} {obj['kind']}", "")
    path = collection(obj, older)
    obj["apiVersion"] = older or obj["apiVersion"]
    if case.base is None:
        answer = server.post(f"{path}?dryRun=All", obj)
        return None if answer[0] == 404 else answer
    server.post(path, obj)
    name = f"{path}/{obj['metadata']['name']}"
    answer = server.send("PATCH", f"{name}?dryRun=All", case.body, "application/merge-patch+json")
    server.send("PATCH", name, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    server.send("DELETE", name, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    return None if answer[0] == 404 else answer


def judge_corpus(server: Server, folders: list[str]) -> int:
    known = explained = differing = unknown = 0
    for which in ("valid", "broken", "updates"):
        for case in cases(which):
            if folders and case.folder not in folders:
                continue
            theirs = judged(case, server)
            if theirs is None:
                unknown += 1
                continue
            known += 1
            if case.code:
                details = [{"field": field, "message": text} for field, _, text in (one.partition(": ") for one in case.causes)]
                ours: tuple[int, Object] = (case.code, {"message": case.causes[0], "details": {"causes": details}})
            else:
                ours = (
                    theirs[0] if theirs[0] < 300 else 201,
                    {**(case.stored or theirs[1]), "apiVersion": theirs[1].get("apiVersion")},
                )
            found = differences(ours, theirs) if case.code != 409 else [] if theirs[0] == 409 else [f"upstream {theirs[0]}"]
            if bool(found) == bool(case.older):
                explained += bool(found)
                continue
            differing += 1
            print(
                f"{case.folder} {which}: {case.title}",
                *(f"    {text[:600]}" for text in found or ["no longer differs"]),
                sep="\n",
            )
    print(f"{known} cases judged, {explained} of them explained, {differing} differ; {unknown} of kinds that it does not know")
    return 1 if differing else 0


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--corpus"] and len(arguments) >= 3:
        return judge_corpus(Server(*arguments[1:3]), arguments[3:])
    if len(arguments) < 4:
        print(__doc__)
        return 2
    ours, theirs = Server(*arguments[0:2]), Server(*arguments[2:4])
    kinds = set(arguments[4:])
    seen: set[str] = set()
    compared = 0
    for line in Path(__file__).with_name("compare_objects.jsonl").read_text().splitlines():
        base = json.loads(line)
        if kinds and base["kind"] not in kinds:
            continue
        variants = [("as it is", base)]
        variants += [
            (f"{'.'.join(map(str, path))} {action} {str(value)[:12]!r}", mutated(base, path, action, value))
            for path, action, value in mutations(base)
        ]
        for label, obj in variants:
            compared += 1
            target = f"{path_of(obj)}?dryRun=All"
            found = differences(ours.post(target, obj), theirs.post(target, obj))
            if any(known in text for text in found for known in KNOWN):
                continue
            signature = base["kind"] + re.sub(r'"[^"]*"|\d+', "", "".join(found))
            if found and signature not in seen:
                seen.add(signature)
                print(f"{base['kind']} {label}", *(f"    {text[:300]}" for text in found), sep="\n")
    print(f"{compared} objects compared, {len(seen)} kinds of difference")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
