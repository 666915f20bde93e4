"""Ask a server all questions and write its answers: how ``answers.tsv`` was made of kube-apiserver v1.20.2.

    python -m tests.security.rbac_parity.ask https://127.0.0.1:6443 CA-FILE ADMIN-TOKEN > tests/security/rbac_parity/answers.tsv

The token is a cluster administrator's. Holders of roles get a ClusterRoleBinding each, ``parity:<role>``. The server's controller
manager must run, if only with ``--controllers=clusterrole-aggregation``: without it ``view``, ``edit`` and ``admin`` are empty.
"""

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from tests.security.rbac_parity.questions import HELD, Question, questions

Post = Callable[[str, Any], Awaitable[tuple[int, Any]]]
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_GROUP = "rbac.authorization.k8s.io"


async def bind_holders(post: Post) -> None:
    """One user for each default role; those that the server does not have stay without rights."""
    for role in HELD:
        binding = {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"parity:{role}"},
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": f"holder:{role}"}],
        }
        status, answer = await post(_BINDINGS, binding)
        if status not in (201, 409):
            raise RuntimeError(f"cannot bind {role}: {answer}")


async def answers(post: Post) -> list[tuple[Question, bool]]:
    found = []
    for question in questions():
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": question.spec()}
        status, answer = await post(_REVIEWS, review)
        if status != 201:
            raise RuntimeError(f"{question}: {answer}")
        found.append((question, bool(answer["status"]["allowed"])))
    return found


async def main(url: str, ca: str, token: str) -> None:
    tls = ssl.create_default_context(cafile=ca)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:

        async def post(path: str, body: Any) -> tuple[int, Any]:
            async with session.post(url + path, json=body, ssl=tls) as answer:
                return answer.status, await answer.json()

        await bind_holders(post)
        await asyncio.sleep(1)
        for question, allowed in await answers(post):
            fields = (question.subject, question.verb, question.group, question.resource, question.namespace, question.name)
            print(*fields, "yes" if allowed else "no", sep="\t")  # noqa: T201 - a command's output


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
