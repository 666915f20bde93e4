"""The image of the demo, a web page that tells which pod answered, made from this machine's busybox. Called by ``cli demo``."""

from bootstrap.images import CATATONIT, File, Image, busybox_image

REFERENCE = "localhost/pybernetes-demo:1"
PORT = 8080
_APPLETS = ("sh", "httpd", "hostname", "cat", "echo", "env", "ls", "ps", "sleep", "wget", "nslookup", "vi", "top", "id", "date")
_PAGE = """#!/bin/sh
printf 'Content-Type: text/plain\\r\\n\\r\\n'
echo "Hello from $(hostname), a pod of Pybernetes."
"""


def demo_image(reference: str = REFERENCE) -> Image:
    """busybox httpd under an init that passes signals on: as process 1 httpd itself would ignore SIGTERM."""
    extra = (
        File("init", CATATONIT.read_bytes(), mode=0o755),
        File("www", directory=True, mode=0o755),
        File("www/cgi-bin", directory=True, mode=0o755),
        File("www/cgi-bin/index.cgi", _PAGE.encode(), mode=0o755),
    )
    made = busybox_image(reference, _APPLETS, extra=extra)
    return Image(
        reference=made.reference,
        files=made.files,
        entrypoint=("/init", "--", "/bin/httpd", "-f", "-p", str(PORT), "-h", "/www"),
        env=made.env,
    )
