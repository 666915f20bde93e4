"""The controller manager: loops that watch the API server and move what is towards what is wanted."""
