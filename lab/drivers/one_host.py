"""Scheduling on a cloud of one host: hard anti-affinity is recorded, but cannot be kept."""

from nova.scheduler import filters


class ServerGroupAntiAffinityFilter(filters.BaseHostFilter):
    """Stands in for Nova's filter of this name, which would let one server of a group start.

    Nova refuses the policy altogether when no filter of the name is there.
    """

    RUN_ON_REBUILD = False

    def host_passes(self, host_state, spec_obj):
        return True
