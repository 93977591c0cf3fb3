"""What forms send: a pasted manifest, whose size is bounded."""

from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

from console.views.manifest import LONGEST, ManifestError

LONGEST_FORM: Final = 4 * LONGEST  # bytes; percent-encoding triples most characters
LONGEST_NAME: Final = 253


async def read_form(request: Request) -> str:
    """Return the field ``manifest`` of a form.

    Raises:
        ManifestError: the form is too long.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            raise ManifestError(f"the form has more than {LONGEST_FORM} bytes")
    fields = parse_qs(body.decode(errors="replace"), max_num_fields=4)
    return fields.get("manifest", [""])[0].replace("\r\n", "\n")
