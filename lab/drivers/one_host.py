"""Scheduling on a cloud of one host, which can keep hard anti-affinity only where it is counted."""

from nova.scheduler.filters import affinity_filter


class ServerGroupAntiAffinityFilter(affinity_filter.ServerGroupAntiAffinityFilter):
    """Stands in for Nova's filter of this name, which would let one server of a group start.

    Nova refuses the policy altogether when no filter of the name is there. Nova's own decides
    where the group says itself how many of its servers a host may have (max_server_per_host).
    """

    def host_passes(self, host_state, spec_obj):
        group = spec_obj.instance_group
        counted = group is not None and "max_server_per_host" in (group.rules or {})
        return super().host_passes(host_state, spec_obj) if counted else True
