"""Rules for names: DNS labels, qualified names, label values, ports and the like.

Each ``is_*`` function returns messages, an empty list for a good value; the texts are upstream's
(k8s.io/apimachinery ``pkg/util/validation``), because people and tests search for them.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence

LABEL_MAX = 63
SUBDOMAIN_MAX = 253

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORED_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED = rf"{_UNDERSCORED_LABEL}(\.{_UNDERSCORED_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HEADER = "[-A-Za-z0-9]+"
_PERCENT = "[0-9]+%"

_LABEL_RE = re.compile(_LABEL)
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_UNDERSCORED_RE = re.compile(_UNDERSCORED)
_LABEL_1035_RE = re.compile(_LABEL_1035)
_QUALIFIED_RE = re.compile(_QUALIFIED)
_LABEL_VALUE_RE = re.compile(_LABEL_VALUE)
_C_IDENTIFIER_RE = re.compile(_C_IDENTIFIER)
_CONFIG_KEY_RE = re.compile(_CONFIG_KEY)
_HEADER_RE = re.compile(_HEADER)
_PERCENT_RE = re.compile(_PERCENT)
_PORT_CHARACTERS_RE = re.compile("[-a-z0-9]+")
_WILDCARD_RE = re.compile(rf"\*\.{_SUBDOMAIN}")

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_UNDERSCORED_TEXT = _SUBDOMAIN_TEXT.replace("'-' or", "'_', '-' or")
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_C_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'"
)
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
    "which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)
_ENVIRONMENT_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
EMPTY = "must be non-empty"


def regex_error(text: str, pattern: str, *examples: str) -> str:
    """``text`` followed by examples and the rule itself, in upstream's form."""
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def max_length_error(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def range_error(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def _too_long(text: str, limit: int) -> list[str]:
    return [max_length_error(limit)] if len(text) > limit else []


def is_dns1123_label(text: str) -> list[str]:
    """The rule for namespaces, container names and most short names."""
    if len(text) <= LABEL_MAX and _LABEL_RE.fullmatch(text):
        return []
    problems = _too_long(text, LABEL_MAX)
    if not _LABEL_RE.fullmatch(text):
        dotted = _SUBDOMAIN_RE.fullmatch(text)
        problems.append("must not contain dots" if dotted else regex_error(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return problems


def is_dns1123_subdomain(text: str) -> list[str]:
    """The rule for the names of most objects."""
    if len(text) <= SUBDOMAIN_MAX and _SUBDOMAIN_RE.fullmatch(text):
        return []
    problems = _too_long(text, SUBDOMAIN_MAX)
    if not _SUBDOMAIN_RE.fullmatch(text):
        problems.append(regex_error(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return problems


def is_dns1123_subdomain_with_underscore(text: str) -> list[str]:
    """The rule for the search domains of pods (KEP-4427): ``_sip._tcp.example.com``."""
    if len(text) <= SUBDOMAIN_MAX and _UNDERSCORED_RE.fullmatch(text):
        return []
    problems = _too_long(text, SUBDOMAIN_MAX)
    if not _UNDERSCORED_RE.fullmatch(text):
        problems.append(regex_error(_UNDERSCORED_TEXT, _UNDERSCORED, "example.com"))
    return problems


def is_dns1035_label(text: str) -> list[str]:
    """The rule for the names of Services."""
    problems = _too_long(text, LABEL_MAX)
    if not _LABEL_1035_RE.fullmatch(text):
        problems.append(regex_error(_LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"))
    return problems


def is_wildcard_subdomain(text: str) -> list[str]:
    problems = _too_long(text, SUBDOMAIN_MAX)
    if not _WILDCARD_RE.fullmatch(text):
        problems.append(regex_error(_WILDCARD_TEXT, rf"\*\.{_SUBDOMAIN}", "*.example.com"))
    return problems


def is_qualified_name(text: str) -> list[str]:
    """The rule for label and annotation keys, finalizers and resource names: ``[prefix/]name``."""
    if len(text) <= LABEL_MAX and _QUALIFIED_RE.fullmatch(text):
        return []
    rule = regex_error(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc")
    parts = text.split("/")
    if len(parts) > 2:
        return [f"a qualified name {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    problems = []
    if len(parts) == 2:
        prefix = parts[0]
        found = is_dns1123_subdomain(prefix) if prefix else [EMPTY]
        problems += [f"prefix part {message}" for message in found]
    name = parts[-1]
    if not name:
        problems.append(f"name part {EMPTY}")
    elif len(name) > LABEL_MAX:
        problems.append(f"name part {max_length_error(LABEL_MAX)}")
    if not _QUALIFIED_RE.fullmatch(name):
        problems.append(f"name part {rule}")
    return problems


def is_label_value(text: str) -> list[str]:
    problems = _too_long(text, LABEL_MAX)
    if not _LABEL_VALUE_RE.fullmatch(text):
        problems.append(regex_error(_LABEL_VALUE_TEXT, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return problems


def is_c_identifier(text: str) -> list[str]:
    if _C_IDENTIFIER_RE.fullmatch(text):
        return []
    return [regex_error(_C_IDENTIFIER_TEXT, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def is_environment_name(text: str) -> list[str]:
    """The relaxed rule that upstream applies since 1.34: any printable ASCII but ``=``."""
    if not text:
        return [f"environment variable name {EMPTY}"]
    if text.isascii() and text.isprintable() and "=" not in text:
        return []
    return [_ENVIRONMENT_TEXT]


def is_config_key(text: str) -> list[str]:
    """The rule for keys of ConfigMaps and Secrets."""
    problems = _too_long(text, SUBDOMAIN_MAX)
    if not _CONFIG_KEY_RE.fullmatch(text):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(regex_error(rule, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if text == ".":
        problems.append("must not be '.'")
    elif text == "..":
        problems.append("must not be '..'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def is_port_number(port: int) -> list[str]:
    return [] if 1 <= port <= 65535 else [range_error(1, 65535)]


def is_port_name(text: str) -> list[str]:
    """The rule for IANA service names, which container ports and probes follow."""
    problems = _too_long(text, 15)
    if not _PORT_CHARACTERS_RE.fullmatch(text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= character <= "z" for character in text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text and (text[0] == "-" or text[-1] == "-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def is_header_name(text: str) -> list[str]:
    if _HEADER_RE.fullmatch(text):
        return []
    rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [regex_error(rule, _HEADER, "X-Header-Name")]


def is_percent(text: str) -> list[str]:
    if _PERCENT_RE.fullmatch(text):
        return []
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return [regex_error(rule, _PERCENT, "1%", "93%")]


def is_path_segment(text: str) -> list[str]:
    """The rule for RBAC names, which may hold colons and capitals but must fit into a URL path."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in text]


def is_ip(text: str) -> list[str]:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return [] if not getattr(address, "scope_id", None) else ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]


def is_strict_cidr(text: str) -> list[str]:
    """A range in the form that newer fields take: no bits beyond the prefix (KEP-4858)."""
    problems = is_cidr(text)
    if not problems and ipaddress.ip_network(text, strict=False).network_address != ipaddress.ip_interface(text).ip:
        problems = ["must not have bits set beyond the prefix length"]
    return problems


def is_cidr(text: str) -> list[str]:
    address, slash, bits = text.partition("/")
    problem = ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    if not slash or not bits.isdecimal() or is_ip(address):
        return problem
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return problem
    return []


# --------------------------------------------------------------------------- generated names

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes, as upstream, so that no words appear
_SUFFIX = 5
_GENERATED_BASE_MAX = LABEL_MAX - _SUFFIX


def random_suffix(choose: Callable[[Sequence[str]], str], length: int = _SUFFIX) -> str:
    """Characters that are safe in a name; ``choose`` picks one of a sequence (``random.choice``)."""
    return "".join(choose(_ALPHABET) for _ in range(length))


def generate(base: str, choose: Callable[[Sequence[str]], str]) -> str:
    """The name for ``generateName: base``: cut to 58 characters, five random ones added."""
    return base[:_GENERATED_BASE_MAX] + random_suffix(choose)


def is_extended_resource(resource: str) -> bool:
    """A resource of some device plug-in: a domain of its own, usable in a quota as ``requests.<name>``."""
    if "/" not in resource or "kubernetes.io/" in resource or resource.startswith("requests."):
        return False
    return not is_qualified_name(f"requests.{resource}")
