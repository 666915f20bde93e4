"""The gRPC health protocol, by hand: its two messages have one field each. Imported only when a pod has such a probe."""

import grpc
import grpc.aio

from node.kubelet.probes.results import Attempt, Outcome

_METHOD = "/grpc.health.v1.Health/Check"
_STATUSES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


def encode_request(service: str) -> bytes:
    """``HealthCheckRequest{service}``"""
    text = service.encode()
    if not text:
        return b""
    length = len(text)
    varint = bytearray()
    while length > 0x7F:
        varint.append(length & 0x7F | 0x80)
        length >>= 7
    varint.append(length)
    return b"\x0a" + bytes(varint) + text


def decode_response(data: bytes) -> int:
    """``HealthCheckResponse{status}``; 0 when the field is absent."""
    return data[1] if len(data) >= 2 and data[0] == 0x08 else 0


async def check(host: str, port: int, service: str, timeout: float) -> Attempt:
    """Ask once; SERVING is success."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    async with grpc.aio.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        call = channel.unary_unary(_METHOD, request_serializer=encode_request, response_deserializer=decode_response)
        try:
            status = await call(service, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            refused = error.code() is grpc.StatusCode.UNAVAILABLE
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                text = f"this server does not implement the grpc health protocol (grpc.health.v1.Health): {error.details()}"
                return Attempt(Outcome.FAILURE, f"error: {text}")
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return Attempt(Outcome.FAILURE, f"timeout: health rpc did not complete within {timeout:g}s")
            return Attempt(Outcome.FAILURE, f"error: health rpc probe failed: {error.details()}", refused)
    if status == 1:
        return Attempt(Outcome.SUCCESS, "service healthy")
    return Attempt(Outcome.FAILURE, f'service unhealthy (responded with "{_STATUSES.get(status, str(status))}")')
