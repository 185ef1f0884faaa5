"""The errors of a service that refuses a request or does not answer.

The import takes half a second: only what talks to the cloud should import this.
"""

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException

# openstacksdk passes on what keystoneauth raises when nothing answers.
CLOUD_ERRORS = (SDKException, ClientException)
