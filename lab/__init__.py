"""A real OpenStack and the Pulumi tool chain on one machine, to run the program against."""
