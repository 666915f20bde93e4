"""Volumes of pods: one adapter per plugin file, ``manager.py`` fulfils ``node.kubelet.interface.VolumeManager``."""
