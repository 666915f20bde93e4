"""The job controller: pods that run until enough of them have succeeded."""
