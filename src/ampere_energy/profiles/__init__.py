"""The profile: what a campaign learnt about a device, as a file.

In comes a fit; out comes versioned JSON, and from it the fit again. `collection` knows where a user's profiles lie,
`bundles` those that come with the package.
"""
