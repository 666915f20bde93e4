"""``jsonpatch.escapeKey``: a key as a step of a JSON pointer. Upstream's ``library.JSONPatch``, for mutations alone."""

from apimachinery.cel.library.declare import STRING, Overload

OVERLOADS = (
    Overload(
        "jsonpatch.escapeKey",
        "string_jsonpatch_escapeKey_string",
        (STRING,),
        STRING,
        lambda key: key.replace("~", "~0").replace("/", "~1"),
    ),
)
