"""The figures the project promises, measured on the lab. `make bench-lab`, `make bench`."""
