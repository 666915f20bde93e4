"""Images: pulled by policy, with the pods' credentials, backed off when that fails."""
