"""Measure the figures that the project promises, on the lab: `make bench-lab`, `make bench`."""
