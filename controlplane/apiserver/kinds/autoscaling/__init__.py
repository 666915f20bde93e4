"""The autoscaling group."""
