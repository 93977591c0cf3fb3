"""Forms of secrets that are recognised without a keyword before them.

What stays readable, because reports of errors need it: UUIDs (of GPUs, slices and objects), digests
of images after ``sha256:``, commit hashes as tags of images and after ``commit`` or ``revision``,
ids of containers after ``containerd://``, resource versions, and names of pods, nodes and kernels.
Other runs of 32 or more hexadecimal digits, such as ids of traces, are lost. Each pattern is linear
in the length of a line: a run of characters is scanned from its beginning only.
"""

from typing import Final

# Not within a longer word. A secret may follow "=", ":", "/" or quotes.
_BEGIN: Final = r"(?<![A-Za-z0-9])"

# By the issuer: its prefix, and more characters than an ordinary word has after it.
PATTERNS: Final = {
    "age": _BEGIN + r"AGE-SECRET-KEY-1[A-Z0-9]{16,}",
    "Amazon": _BEGIN + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}",
    "Anthropic and OpenAI": _BEGIN + r"sk-[\w-]{16,}",
    "Azure, client": r"(?<![\w.~-])[\w.~-]{3}\dQ~[\w.~-]{31,34}",
    "Databricks": _BEGIN + r"dapi[0-9a-f]{32}(?:-\d)?",
    "DigitalOcean": _BEGIN + r"do[oprt]_v1_[0-9a-f]{32,}",
    "Discord": r"(?<![\w-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",
    "Docker": _BEGIN + r"dckr_[a-z]{2,8}_[\w-]{16,}",
    "GitHub": _BEGIN + r"(?:gh[pousr]_|github_pat_)\w{16,}",
    "GitLab": _BEGIN + r"gl(?:pat|dt|rt|ptt|cbt|oas|soat|agent|ft|imt)-[\w.-]{16,}",
    "Google, key": _BEGIN + r"AIza[\w-]{16,}",
    "Google, OAuth": _BEGIN + r"(?:ya29\.|GOCSPX-|1//0)[\w.-]{16,}",
    "Grafana": _BEGIN + r"gl(?:sa|c)_[\w=+/-]{16,}",
    "HashiCorp Vault": _BEGIN
    + r"(?:hv[sbr]\.|(?<![\w.-])[sbr]\.(?=[A-Za-z0-9]{24}(?!\w)))[\w.-]{16,}",
    "HashiCorp Terraform": r"(?<![\w.])[A-Za-z0-9]{14}\.atlasv1\.[\w-]{20,}",
    "Hugging Face": _BEGIN + r"(?:hf|api_org)_[A-Za-z0-9]{16,}",
    "Kubernetes, bootstrap": r"(?<![\w.-])[a-z0-9]{6}\.(?=[a-z0-9]{0,15}\d)[a-z0-9]{16}(?![\w.-])",
    "Linear, Postman, Pulumi, Replicate, Sentry": (
        _BEGIN + r"(?:lin_api_|PMAK-|pul-|r8_|sntry[su]_|figd_|ntn_|pplx-|gsk_|xai-)[\w=+/-]{16,}"
    ),
    "Mailgun": _BEGIN + r"key-[0-9a-f]{32}",
    "npm": _BEGIN + r"npm_[A-Za-z0-9]{16,}",
    "NVIDIA NGC": _BEGIN + r"nvapi-[\w-]{16,}",
    "PyPI": _BEGIN + r"pypi-[\w-]{16,}",
    "RubyGems": _BEGIN + r"rubygems_[0-9a-f]{16,}",
    "SendGrid": _BEGIN + r"SG\.[\w-]{16,}\.[\w-]{16,}",
    "Shopify": _BEGIN + r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{16,}",
    "Slack": _BEGIN + r"(?:xox[abeoprs]|xapp|xwfp)-[\w-]{10,}",
    "Square": _BEGIN + r"(?:sq0[a-z]{3}-|EAAA)[\w-]{20,}",
    "Stripe": _BEGIN + r"(?:[srp]k|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}",
    "Telegram": r"(?<![\w-])\d{8,10}:[A-Za-z0-9_-]{35}(?![\w-])",
    "Twilio": _BEGIN + r"(?:SK|AC)[0-9a-f]{32}(?!\w)",
}

# The group stays.
WEBHOOK: Final = (
    r"(https://(?:hooks\.slack\.com/(?:services|workflows|triggers)/|(?:[a-z]{1,16}\.)?discord(?:app)?\.com/api/webhooks/"
    r"|[\w-]{1,64}\.webhook\.office\.com/|api\.telegram\.org/bot))[^\s\"'<>]+"
)

# What stays of the runs below: an image's tag, a digest, a commit, and the id of a container.
_KEPT: Final = (
    r"/[a-z0-9._-]{1,128}:[0-9a-f]{7,64}(?!\w)"
    r"|\bsha(?:256|512)[:-][0-9a-f]{64,128}(?!\w)"
    r"|\b(?:commit|revision)[ =:]{1,2}[0-9a-f]{7,64}(?!\w)"
    r"|\b(?:containerd|cri-o|docker)(?:://|-)[0-9a-f]{64}(?!\w)"
)
# Keys of 32, 40, 64 and more digits, also after a dot. A UUID has no such run.
_HEXADECIMAL: Final = r"(?<!\w)(?=[0-9a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{32,}(?!\w)"
_BASE64_RUN: Final = r"(?<![\w/+@.-])(?=[\w/+]*\d)(?=[\w/+]*[A-Za-z])[A-Za-z0-9/+]{40,}={0,2}"
# 32 random bytes in base64url are 43 characters. A name of a kernel or pod has few capital letters,
# or "_Z", or the parts of a UUID.
_BASE64URL_RUN: Final = (
    r"(?<![\w/+@.-])(?!(?:[A-Z]{2,4}-)?[0-9a-f]{8}-[0-9a-f]{4}-)(?![\w-]*_Z)"
    r"(?=(?:[A-Za-z_-]*[0-9]){2})(?=(?:[a-z0-9_-]*[A-Z]){6})(?=(?:[A-Z0-9_-]*[a-z]){6})[\w-]{40,}={0,2}"
)
# The group stays.
RUNS: Final = rf"({_KEPT})|{_HEXADECIMAL}|{_BASE64_RUN}|{_BASE64URL_RUN}"
