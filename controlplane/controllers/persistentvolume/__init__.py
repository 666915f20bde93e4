"""The persistentvolume binder: claims get volumes, volumes that lost their claim are reclaimed."""
