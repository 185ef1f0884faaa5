"""Questions to the cloud's services, so small that a refusal costs no other answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cloud.facts import PartialFacts
from cloud.questions import block_storage, compute, dns, images, network
from config.models.cluster import Cluster

if TYPE_CHECKING:
    from openstack.connection import Connection

Question = Callable[["Connection", Cluster], PartialFacts]

# By the name that a warning uses.
REQUIRED: Mapping[str, Question] = {**compute.QUESTIONS, **images.QUESTIONS, **network.QUESTIONS}
# By the service, which not every cloud has.
OPTIONAL: Mapping[str, Mapping[str, Question]] = {
    "block-storage": block_storage.QUESTIONS,
    "dns": dns.QUESTIONS,
    "load-balancer": {},
}
