"""What the agent asks of linkd, which has the second layer: rules on the pods' links."""

from device_plugin.backends.administration import Administration
from device_plugin.errors import LinkdError, LinkdUnreachable


class Linkd(Administration):
    """linkd, by its socket. Every method raises LinkdError and LinkdUnreachable."""

    daemon = "linkd"
    refused = LinkdError
    unreachable = LinkdUnreachable
