"""What a front proxy says of a user, header by header; ``aggregation.identity`` writes what is read here."""

import pytest
from cryptography import x509 as certificates
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from component import x509
from controlplane.apiserver.aggregation.identity import identity_headers
from controlplane.apiserver.authentication.interface import Credentials, UserInfo
from controlplane.apiserver.authentication.request_header import HeaderNames, RequestHeaders

CA = x509.new_ca("front-proxy-ca")
_PEM = x509.issue(CA, x509.Request("front-proxy-client", usages=(x509.CLIENT,))).certificate
PROXY = certificates.load_pem_x509_certificate(_PEM).public_bytes(Encoding.DER)


async def read(names: HeaderNames, headers: list[tuple[str, str]]) -> UserInfo | None:
    seen = Credentials(PROXY, headers=CIMultiDictProxy(CIMultiDict(headers)))
    return await RequestHeaders(lambda: CA.certificate, (), names).authenticate(seen)


@pytest.mark.parametrize(("uids", "uid"), [((), ""), (("X-Remote-Uid",), "42"), (("X-Id", "X-Remote-Uid"), "42")])
async def test_the_uid_is_read_from_the_headers_that_are_named(uids: tuple[str, ...], uid: str) -> None:
    headers = [("x-remote-user", "jane"), ("x-remote-uid", "42"), ("X-Id", "")]
    assert await read(HeaderNames(uids=uids), headers) == UserInfo("jane", uid)


words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)
keys = st.text(min_size=1, max_size=8).map(str.lower).filter(lambda key: key == key.lower())


@given(
    st.builds(
        UserInfo,
        words,
        words,
        st.lists(words, max_size=3).map(tuple),
        st.dictionaries(keys, st.lists(words, min_size=1, max_size=2)),
    )
)
async def test_what_our_proxy_says_is_what_a_server_of_ours_hears(user: UserInfo) -> None:
    assert await read(HeaderNames(uids=("X-Remote-Uid",)), identity_headers(user)) == user
