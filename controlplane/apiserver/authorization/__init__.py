"""May this user do this? One authorizer a file; a union of them is what the filter asks."""
