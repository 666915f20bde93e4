"""The media types in which objects may be stored (``--storage-media-type``)."""

JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
MEDIA_TYPES = (JSON, PROTOBUF)
