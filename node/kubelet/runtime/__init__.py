"""From a pod to CRI calls: observe (``observed``), decide (``actions``), do (``sandbox``, ``containers``)."""
