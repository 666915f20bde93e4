"""Who is asking: one authenticator per file, all of the contract in interface.py."""
