"""Definitions that are refused, in upstream's words."""

import copy
from typing import Any

import pytest

from controlplane.apiserver.kinds.apiextensions.customresourcedefinition import validation
from tests.unit.controlplane.apiserver.kinds.apiextensions.definitions import Object, definition, said, version

LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def test_a_plain_definition_is_valid() -> None:
    assert said(definition()) == []
    assert said(definition(version(), version("v2beta1", subresources={"status": {}}))) == []


def changed(**spec: Any) -> Object:
    obj = definition()
    for path, value in spec.items():
        *above, last = path.split("__")
        place = obj["spec"]
        for step in above:
            place = place[int(step[1:])] if step.startswith("i") and step[1:].isdecimal() else place[step]
        place[last] = value
    return obj


@pytest.mark.parametrize(
    ("obj", "wanted"),
    [
        pytest.param(changed(group=""), ["metadata.name", "spec.group: Required value"], id="no group"),
        pytest.param(
            changed(group="example"),
            ["metadata.name", 'spec.group: Invalid value: "example": should be a domain with at least one dot'],
            id="group without a dot",
        ),
        pytest.param(
            changed(scope="Galaxy"),
            ['spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"'],
            id="scope",
        ),
        pytest.param(
            changed(names__plural="bars"),
            ['metadata.name: Invalid value: "foos.example.com": must be spec.names.plural+"."+spec.group'],
            id="name",
        ),
        pytest.param(
            changed(names__listKind="Foo"),
            ['spec.names.listKind: Invalid value: "Foo": kind and listKind may not be the same'],
            id="list kind",
        ),
        pytest.param(
            changed(names__kind="F_o"),
            [f'spec.names.kind: Invalid value: "F_o": may have mixed case, but should otherwise match: {LABEL}'],
            id="kind",
        ),
        pytest.param(
            changed(names__shortNames=["F"]), [f'spec.names.shortNames[0]: Invalid value: "F": {LABEL}'], id="short name"
        ),
        pytest.param(
            changed(preserveUnknownFields=True),
            [
                "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields "
                "to true in spec.versions[*].schema instead"
            ],
            id="preserve unknown fields",
        ),
        pytest.param(
            changed(versions__i0__schema=None), ["spec.versions[0].schema.openAPIV3Schema: Required value"], id="no schema"
        ),
        pytest.param(
            changed(versions__i0__deprecationWarning="old"),
            ['spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions'],
            id="deprecation",
        ),
        pytest.param(
            changed(versions__i0__subresources={"scale": {"specReplicasPath": ".status.a", "statusReplicasPath": "status.b"}}),
            [
                'spec.subresources.scale.specReplicasPath: Invalid value: ".status.a": should be a json path under .spec',
                'spec.subresources.scale.statusReplicasPath: Invalid value: "status.b": '
                "must be a simple json path starting with .",
            ],
            id="scale",
        ),
        pytest.param(
            changed(versions__i0__additionalPrinterColumns=[{"name": "A", "type": "float", "format": "x"}]),
            [
                'spec.additionalPrinterColumns[0].type: Invalid value: "float": must be one of '
                "boolean,date,integer,number,string",
                'spec.additionalPrinterColumns[0].format: Invalid value: "x": must be one of '
                "byte,date,date-time,double,float,int32,int64,password",
                "spec.additionalPrinterColumns[0].JSONPath: Required value",
            ],
            id="columns",
        ),
        pytest.param(
            changed(conversion={"strategy": "Webhook"}),
            [
                "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
                "spec.conversion.conversionReviewVersions: Required value",
            ],
            id="conversion without a webhook",
        ),
        pytest.param(
            changed(
                conversion={
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": {"url": "http://a"}, "conversionReviewVersions": ["v7", "v7"]},
                }
            ),
            [
                'spec.conversion.webhookClientConfig.url: Invalid value: "http": '
                "'https' is the only allowed URL scheme; desired format: https://host[/path]",
                'spec.conversion.conversionReviewVersions[1]: Invalid value: "v7": duplicate version',
                'spec.conversion.conversionReviewVersions: Invalid value: ["v7","v7"]: must include at least one of v1, v1beta1',
            ],
            id="conversion",
        ),
        pytest.param(
            changed(conversion={"strategy": "None", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]}}),
            [
                "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
                "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
            ],
            id="no conversion",
        ),
    ],
)
def test_what_is_refused(obj: Object, wanted: list[str]) -> None:
    found = said(obj)
    assert len(found) == len(wanted), found
    assert all(text.startswith(start) for text, start in zip(found, wanted, strict=True)), found


def test_versions() -> None:
    twice = said(definition(version(), version(), version("V2", storage=True)))
    assert [text.rpartition(": ")[2] for text in twice if text.startswith("spec.versions: ")] == [
        "must contain unique version names",
        "must have exactly one version marked as storage version",
    ]
    assert 'spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":true,"Deprecated":false' in twice[1]
    assert twice[0].startswith('spec.versions[2].name: Invalid value: "V2": a DNS-1035 label')


def test_versions_with_schemas_of_their_own_are_named() -> None:
    obj = definition(version(), version("v2", schema={"type": "array"}))
    assert "spec.versions[1].schema.openAPIV3Schema.items: Required value: must be specified" in said(obj)


def test_stored_versions_stay() -> None:
    old = definition(version(), version("v2"))
    new = definition(version("v2", storage=True))
    new["status"]["storedVersions"] = ["v1", "v2"]
    (found,) = validation.update_problems(new, old)
    assert str(found).startswith('status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously')


def test_what_stays_once_custom_resources_are_stored() -> None:
    old = definition()
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"] |= {"kind": "Bar", "plural": "bars"}
    assert [str(error) for error in validation.update_problems(new, old)] == [
        'spec.names.plural: Invalid value: "bars": field is immutable'
    ]
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    assert [error.field for error in validation.update_problems(new, old)] == [
        "spec.scope",
        "spec.names.kind",
        "spec.names.plural",
    ]


def test_what_was_stored_need_not_be_mended() -> None:
    keys = {"type": "object", "properties": {"k": {"type": "string"}}}
    listed = {"type": "array", "items": keys, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    old = definition(version(schema={"type": "object", "properties": {"l": listed}}))
    assert [text.rpartition(": ")[2] for text in said(old)] == [
        "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
    ]
    assert validation.update_problems(old, old) == []
    preserving = definition(preserveUnknownFields=True)
    assert validation.update_problems(preserving, preserving) == []


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        (None, "Required value: protected groups must have approval annotation"),
        ("soon", 'Invalid value: "soon": protected groups must have approval annotation'),
        ("unapproved, a test", ""),
        ("https://github.com/kubernetes/kubernetes/pull/1", ""),
    ],
)
def test_groups_of_the_community_are_approved(annotation: str | None, wanted: str) -> None:
    obj = definition(group="x.k8s.io")
    obj["metadata"] = {"name": "foos.x.k8s.io", "annotations": {"api-approved.kubernetes.io": annotation} if annotation else {}}
    found = said(obj)
    assert len(found) == bool(wanted)
    assert all(text.startswith(f"metadata.annotations[api-approved.kubernetes.io]: {wanted}") for text in found)


def test_certificates_have_to_be_some_once_they_are_used() -> None:
    client = {"url": "https://example.com", "caBundle": "bm90aGluZw=="}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    new = definition(conversion={"strategy": "Webhook", "webhook": webhook})
    assert said(new) == []
    old = definition()
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    assert [str(error) for error in validation.update_problems(new, old)] == [
        'spec.conversion.webhookClientConfig.caBundle: Invalid value: "bm90aGluZw==": '
        "unable to load root certificates: unable to parse bytes as PEM block"
    ]


def test_a_spec_that_stays_is_not_judged_again_but_what_stands_beside_it_is() -> None:
    old = changed(names__plural="Wrong")
    assert validation.problems(old)
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"a": "b"}
    assert validation.update_problems(new, old) == []
    new["status"]["storedVersions"] = ["v0", "v1"]
    assert [error.field for error in validation.update_problems(new, old)] == ["status.storedVersions[0]"]
