"""Profiles that come with the package: one folder a device, listed by its `about.json` without unpacking anything."""
