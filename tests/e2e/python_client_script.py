"""What a user of the Python package ``kubernetes`` does with containers; ``test_python_client`` runs it beside a real cluster.

Arguments: kubeconfig, namespace, image. Writes one JSON object of what it saw.
"""

import json
import sys
from itertools import islice

from kubernetes import client, config, stream, utils, watch

kubeconfig, namespace, image = sys.argv[1:]
config.load_kube_config(kubeconfig)
core, seen = client.CoreV1Api(), {}
script = "for i in 1 2 3; do echo line $i; sleep 0.2; done; sleep 600"
container = client.V1Container(name="main", image=image, command=["sh", "-c", script])
pod = client.V1Pod(
    api_version="v1",
    kind="Pod",
    metadata=client.V1ObjectMeta(name="p"),
    spec=client.V1PodSpec(containers=[container], termination_grace_period_seconds=1),
)
utils.create_from_dict(client.ApiClient(), client.ApiClient().sanitize_for_serialization(pod), namespace=namespace)

watcher = watch.Watch()
for event in watcher.stream(core.list_namespaced_pod, namespace, field_selector="metadata.name=p", timeout_seconds=60):
    if event["object"].status.phase == "Running":
        seen["type"] = event["type"]
        watcher.stop()

lines = watch.Watch().stream(core.read_namespaced_pod_log, "p", namespace)
seen["log"] = list(islice(lines, 3))

shell = stream.stream(
    core.connect_get_namespaced_pod_exec,
    "p",
    namespace,
    command=["sh"],
    stdin=True,
    stdout=True,
    stderr=True,
    tty=False,
    _preload_content=False,
)
shell.write_stdin("echo out; echo err >&2; exit 5\n")
shell.run_forever(timeout=20)
seen["exec"] = [shell.read_stdout(), shell.read_stderr(), shell.returncode]

core.delete_namespaced_pod("p", namespace)
for event in watch.Watch().stream(core.list_namespaced_pod, namespace, timeout_seconds=60):
    if event["type"] == "DELETED":
        seen["deleted"] = event["object"].metadata.name
        break
sys.stdout.write(json.dumps(seen))
