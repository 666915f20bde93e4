"""GET ``/log``: the kubelet's answer, passed on as it comes. With ``follow`` that lasts as long as the container."""

from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from apimachinery import errors, fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.times import parse_time
from controlplane.apiserver.admission.interface import Lookup
from controlplane.apiserver.endpoints import connect_pod, read_socket
from controlplane.apiserver.endpoints.connect_kubelet import Kubelets, backend_error
from controlplane.apiserver.endpoints.options import integer
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import is_true
from controlplane.apiserver.wire.reply import TEXT, Answer, Reply

_BOOLEANS = ("follow", "previous", "timestamps")
_NUMBERS = ("sinceSeconds", "tailLines", "limitBytes")
_ERROR_LIMIT = 64 * 1024


def endpoint(lookup: Lookup, kubelets: Kubelets) -> Any:
    async def log(call: Call) -> Answer:
        query = parameters(call)
        protocol = read_socket.protocol_of(call) if read_socket.asked(call) else ""
        pod = await connect_pod.pod_of(call, lookup)
        container = connect_pod.container_of(pod, call.query.get("container", ""))
        node = pod["spec"].get("nodeName")
        if not node:
            return Reply(200, b"", TEXT)  # nothing can have been logged yet
        target = await kubelets.of_node(node)
        url = target.url("containerLogs", call.info.namespace, call.info.name, container, query=query)
        insecure = is_true(call.query.get("insecureSkipTLSVerifyBackend"))
        try:
            answer = await kubelets.session.get(
                URL(url, encoded=True), ssl=kubelets.context(insecure=insecure), allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise backend_error(f'Get "{url}": {error}') from error
        async with answer:
            if not 200 <= answer.status <= 206:
                text = (await answer.content.read(_ERROR_LIMIT)).decode(errors="replace").strip()
                raise _refusal(answer.status, text, call.info.name)
            if read_socket.asked(call):
                return await read_socket.send(call, answer.content.iter_any(), protocol)
            return await _pass_on(call, answer)

    return log


async def _pass_on(call: Call, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = {"Content-Type": "text/plain", "Cache-Control": "no-cache, private", "Audit-Id": call.audit_id}
    response = web.StreamResponse(headers=headers)
    if answer.content_length is not None:
        response.content_length = answer.content_length
    else:
        response.enable_chunked_encoding()
    await response.prepare(call.http)
    try:
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
    except aiohttp.ClientError as error:
        raise ConnectionError("the kubelet broke off") from error  # the client must see that this is not the end
    await response.write_eof()
    return response


def _refusal(status: int, text: str, pod: str) -> errors.StatusError:
    if status >= 500:
        return errors.internal(text)
    if status == 400:
        return errors.bad_request(text)
    reasons = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}
    return errors.StatusError(errors.make_status(status, reasons.get(status, ""), text, {"name": pod, "kind": "pods/log"}))


def parameters(call: Call) -> list[tuple[str, str]]:
    """``v1.PodLogOptions`` for the kubelet. Raises StatusError 400 for what cannot be read, 422 for what is out of range."""
    query = call.query
    found = [(name, "true") for name in _BOOLEANS if is_true(query.get(name))]
    numbers: dict[str, int] = {}
    for name in _NUMBERS:
        if query.get(name):
            numbers[name] = integer(query[name])
    if query.get("sinceTime"):
        try:
            parse_time(query["sinceTime"])
        except ValueError as error:
            raise errors.bad_request(f"sinceTime: {error}") from None
    if problems := _out_of_range(numbers, query):
        raise errors.invalid("PodLogOptions", call.info.name, problems)
    found += [(name, str(value)) for name, value in numbers.items()]
    found += [(name, query[name]) for name in ("sinceTime", "stream") if query.get(name)]
    return found


def _out_of_range(numbers: dict[str, int], query: dict[str, str]) -> list[FieldError]:
    problems = []
    if numbers.get("tailLines", 0) < 0:
        problems.append(fieldpath.invalid("tailLines", numbers["tailLines"], "must be greater than or equal to 0"))
    if numbers.get("limitBytes", 1) < 1:
        problems.append(fieldpath.invalid("limitBytes", numbers["limitBytes"], "must be greater than 0"))
    if "sinceSeconds" in numbers and query.get("sinceTime"):
        problems.append(fieldpath.forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif numbers.get("sinceSeconds", 1) < 1:
        problems.append(fieldpath.invalid("sinceSeconds", numbers["sinceSeconds"], "must be greater than 0"))
    stream = query.get("stream") or "All"
    if stream not in ("All", "Stdout", "Stderr"):
        problems.append(fieldpath.not_supported("stream", stream, ("All", "Stderr", "Stdout")))
    elif stream != "All" and "tailLines" in numbers:
        problems.append(fieldpath.forbidden("", "`tailLines` and specific `stream` are mutually exclusive for now"))
    return problems
