"""storage-version-migrator: writes all objects of a resource again, in the version and under the key that is wanted now.

``turns`` says whose turn it is, ``definitions`` tells CustomResourceDefinitions of it, ``controller`` does the work. Upstream's
``pkg/controller/storageversionmigrator``, whose three loops are one here.
"""
