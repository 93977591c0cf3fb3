"""Lines that a broken daemon, or one of another version, sends where a reply is expected."""

NO_REPLIES = (
    *(b"no JSON\n", b"\n", b"\xff\n"),
    *(b"[]\n", b"1\n", b"null\n", b'"id"\n'),
    *(b'{"id": 1}\n', b'{"id": 1, "result": []}\n', b'{"id": 1, "error": "no"}\n'),
    b'{"id": 1, "error": "no", "result": {}}\n',
    *(b'{"id": 1, "error": {"code": "x"}}\n', b'{"id": 1, "error": {"code": 1, "message": "m"}}\n'),
)
