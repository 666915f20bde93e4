"""The statefulset controller: pods with names, order and storage of their own."""
