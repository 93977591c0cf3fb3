"""The agent's requests to linkd, which installs the second layer's rules on the pods' links."""

from device_plugin.backends.administration import Administration
from device_plugin.errors import LinkdError, LinkdUnreachable


class Linkd(Administration):
    """A client of linkd's socket. Every method may raise LinkdError or LinkdUnreachable."""

    daemon = "linkd"
    refused = LinkdError
    unreachable = LinkdUnreachable
