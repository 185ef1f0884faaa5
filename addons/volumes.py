"""Volumes that add-ons fill with what they collect."""

# An add-on deletes its oldest data instead of filling its volume. It may exceed this by a block,
# and with less than 15% free Prometheus' alert KubePersistentVolumeFillingUp may fire.
FULL_PERCENT = 80
