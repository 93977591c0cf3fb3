"""Forms of secrets that are recognised without a keyword before them.

What stays readable, because reports of errors need it: UUIDs (of GPUs, slices and objects), digests
of images after ``sha256:``, commit hashes as tags of images and after ``commit`` or ``revision``,
ids of containers after ``containerd://``, resource versions, and names of pods, nodes and kernels.
Other runs of 32 or more hexadecimal digits, such as ids of traces, are lost. Each pattern is linear
in the length of a line: a run of characters is scanned from its beginning only.

Three forms look like ordinary words and need a keyword before them: words without digits,
such as a bootstrap token of letters only, random lower-case letters and digits after ``-``, such as
the end of a pod's name, and UUIDs.
"""

from typing import Final

# Not within a longer word. A secret may follow "=", ":", "/" or quotes.
_BEGIN: Final = r"(?<![A-Za-z0-9])"

# By the issuer: its prefix, and more characters than an ordinary word has after it.
PATTERNS: Final = {
    "Adafruit, Airtable, crates.io, NuGet": (
        _BEGIN
        + r"(?:aio_[A-Za-z0-9]{20,}|pat[A-Za-z0-9]{14}\.[0-9a-f]{32,}|cio[A-Za-z0-9]{32}(?!\w)"
        r"|oy2[a-z0-9]{43}(?!\w))"
    ),
    "age": _BEGIN + r"AGE-SECRET-KEY-1[A-Z0-9]{16,}",
    "Amazon": _BEGIN + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}",
    "Alibaba, Tencent": _BEGIN
    + r"(?:LTAI(?=[A-Za-z]*\d)[A-Za-z0-9]{12,26}|AKID[A-Za-z0-9]{28,36})(?!\w)",
    "Anthropic and OpenAI": _BEGIN + r"sk-[\w-]{16,}",
    "Atlassian": _BEGIN + r"(?:ATBB[A-Za-z0-9]{24,}|AT[A-Z]TT3[\w=+/-]{16,})",
    "Azure, client": r"(?<![\w.~-])[\w.~-]{3}\dQ~[\w.~-]{31,34}",
    "Databricks": _BEGIN + r"dapi[0-9a-f]{32}(?:-\d)?",
    "DigitalOcean": _BEGIN + r"do[oprt]_v1_[0-9a-f]{32,}",
    "Contentful, New Relic, Heroku, LaunchDarkly": (
        _BEGIN + r"(?:(?:CFPAT-|NR(?:AK|AL|BR|II|JS|RA)-)[\w-]{16,}"
        r"|(?:HRKU|mob|sdk)-(?=[\da-f]{8}-|AA)[\w-]{36,})"
    ),
    "Discord": r"(?<![\w-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",
    "Docker": _BEGIN + r"dckr_[a-z]{2,8}_[\w-]{16,}",
    "Doppler, Dropbox, Dynatrace": _BEGIN
    + r"(?:dp\.[a-z]{2,5}\.|sl\.(?:u\.)?(?=[\w-]{64})|dt0[a-z]\d\d\.)[\w.-]{20,}",
    "Fireworks, Jina, Lambda, LangSmith, Modal": (
        _BEGIN
        + r"(?:(?:fw|jina)_[A-Za-z0-9]{20,}|a[ks]-(?=[A-Za-z]*\d)(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{20,}"
        r"|secret_[a-z0-9-]{1,40}_[0-9a-f]{16,}\.[A-Za-z0-9]{16,}|lsv2_[a-z]{2}_\w{32,})"
    ),
    "GitHub": _BEGIN + r"(?:gh[pousr]_|github_pat_)\w{16,}",
    "GitLab": _BEGIN
    + r"gl(?:pat|dt|rt|ptt|cbt|oas|soat|agent|ft|imt)-[\w.-]{16,}|"
    + _BEGIN
    + r"GR1348941[\w-]{16,}",
    "Google, key": _BEGIN + r"AIza[\w-]{16,}",
    "Google, OAuth": _BEGIN + r"(?:ya29\.|GOCSPX-|1//0)[\w.-]{16,}",
    "Grafana": _BEGIN + r"gl(?:sa|c)_[\w=+/-]{16,}",
    "HashiCorp Vault": _BEGIN
    + r"(?:hv[sbr]\.|(?<![\w.-])[sbr]\.(?=[A-Za-z0-9]{24}(?!\w)))[\w.-]{16,}",
    "HashiCorp Terraform": r"(?<![\w.])[A-Za-z0-9]{14}\.atlasv1\.[\w-]{20,}",
    "Hugging Face": _BEGIN + r"(?:hf|api_org)_[A-Za-z0-9]{16,}",
    "Kubernetes, bootstrap": r"(?<![\w.-])[a-z0-9]{6}\.(?=[a-z0-9]{0,15}\d)[a-z0-9]{16}(?![\w.-])",
    "JFrog": _BEGIN + r"(?:AKCp[A-Za-z0-9]{40,}|cmVmdGtu[A-Za-z0-9+/=]{40,})",
    "Linear, Postman, Pulumi, Replicate, Sentry": (
        _BEGIN + r"(?:lin_api_|PMAK-|pul-|r8_|sntry[su]_|figd_|ntn_|pplx-|gsk_|xai-|tvly-|csk-)"
        r"[\w=+/-]{16,}"
    ),
    "Mailgun": _BEGIN + r"key-[0-9a-f]{32}",
    "npm": _BEGIN + r"npm_[A-Za-z0-9]{16,}",
    "NVIDIA NGC": _BEGIN + r"nvapi-[\w-]{16,}",
    "PyPI": _BEGIN + r"pypi-[\w-]{16,}",
    "RubyGems": _BEGIN + r"rubygems_[0-9a-f]{16,}",
    "RunPod": _BEGIN + r"rpa_[A-Z0-9]{20,}",
    "SendGrid": _BEGIN + r"SG\.[\w-]{16,}\.[\w-]{16,}",
    "Shopify": _BEGIN + r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{16,}",
    "Slack": _BEGIN + r"(?:xox[abeoprs]|xapp|xwfp)-[\w-]{10,}",
    "Square": _BEGIN + r"(?:sq0[a-z]{3}-|EAAA)[\w-]{20,}",
    "Stripe": _BEGIN + r"(?:[srp]k|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}",
    "Tailscale": _BEGIN + r"tskey-[a-z]{3,10}-[A-Za-z0-9-]{16,}",
    "Telegram": r"(?<![\w-])\d{8,10}:[A-Za-z0-9_-]{35}(?![\w-])",
    "Twilio": _BEGIN + r"(?:SK|AC)[0-9a-f]{32}(?!\w)",
}

# The group stays.
WEBHOOK: Final = (
    r"(https://(?:hooks\.slack\.com/(?:services|workflows|triggers)/|(?:[a-z]{1,16}\.)?discord(?:app)?\.com/api/webhooks/"
    r"|[\w-]{1,64}\.webhook\.office\.com/|api\.telegram\.org/bot))[^\s\"'<>]+"
)

# Passwords as arguments of commands. Two groups stay; "-u" may have a numeric user and group.
ARGUMENTS: Final = (
    r"((?<![\w-])(?:-u|--user|--proxy-user)(?:\\{0,8}[\"'])?[,\s=]\s{0,8}\\{0,8}[\"']?[^\s:\"'\\]{1,64}:)"
    r"(?!\d{1,10}(?!\w))[^\s\"'\\]+"
    r"|(\b(?:mysql|mysqldump|mysqladmin|mariadb|sshpass)\b"
    r"(?:[ \t]+(?!-p)[^\s]{1,64}){0,16}[ \t]+-p[ \t]?)"
    r"[^\s-][^\s\"']*"
)
# A UUID is a secret only after such a word.
UUID: Final = (
    r"(?i)((?:secret|token|api[_-]?key|password)[_-]?(?:id|key|value)?[\"']?\s{1,8}[\"']?)"
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)

# What stays of the runs below: an image's tag, a digest, a commit, the id of a container, and the
# mangled name of a kernel.
_KEPT: Final = (
    r"/[a-z0-9._-]{1,128}:[0-9a-f]{7,64}(?!\w)"
    r"|\bsha(?:256|512)[:-][0-9a-f]{64,128}(?!\w)"
    r"|\b(?:commit|revision)[ =:]{1,2}[0-9a-f]{7,64}(?!\w)"
    r"|\b(?:containerd|cri-?o|docker)(?:://|-)[0-9a-f]{64}(?!\w)"
    r"|(?<![A-Za-z0-9])_Z\w+"
)
# Keys of 32, 40, 64 and more digits, also after a dot or a prefix. A UUID has no such run. The name
# of a kernel of Triton ends with its arguments' numbers, as in 0d1d2d3de.
_HEXADECIMAL: Final = _BEGIN + r"(?!0d1d?2)(?=[0-9a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{32,}(?!\w)"
# Two words that begin with capital letters, as in names of functions.
_NO_WORDS: Final = r"(?![A-Za-z0-9]*?(?:[A-Z][a-z]{3,}){2})"
# A short prefix, and random characters: of three classes, with digits in two places, of capital
# letters and digits, or, after "_", of lower-case letters and digits that alternate more often than
# in a name of a kernel.
_PREFIXED: Final = (
    _BEGIN
    + r"[A-Za-z][A-Za-z0-9]{0,15}[_-](?:"
    + _NO_WORDS
    + r"(?=[A-Za-z]*\d+[A-Za-z]+\d)(?=(?:[a-z0-9]*[A-Z]){3})(?=(?:[A-Z0-9]*[a-z]){3})"
    r"[A-Za-z0-9]{20,}"
    r"|(?=(?:[A-Z]*\d){3})(?=(?:\d*[A-Z]){6})[A-Z0-9]{20,}"
    r"|(?<=_)(?=(?:[a-z]*\d+[a-z]){4})(?=(?:[a-f0-9]*[g-z]){6})[a-z0-9]{24,}"
    r")[\w-]*={0,2}"
)
# 32 random letters and digits have digits in three places and many letters of both cases.
_LETTERS: Final = (
    r"(?<![\w/+@.-])" + _NO_WORDS + r"(?=(?:[A-Za-z]*\d+[A-Za-z]){3})(?=(?:[a-z0-9]*[A-Z]){6})"
    r"(?=(?:[A-Z0-9]*[a-z]){6})[A-Za-z0-9]{32,}(?!\w)"
)
# 80 or 160 bits in base32, as of one-time passwords. Hexadecimal digits have no letter after F.
_BASE32: Final = (
    r"(?<![\w/+@.-])(?=(?:[A-Z]*[2-7]){2})(?=[A-F2-7]*[G-Z])[A-Z2-7]{16}(?:[A-Z2-7]{16})?(?![\w-])"
)
_BASE64_RUN: Final = r"(?<![\w/+@.-])(?=[\w/+]*\d)(?=[\w/+]*[A-Za-z])[A-Za-z0-9/+]{40,}={0,2}"
# 32 random bytes in base64url are 43 characters. A name of a kernel or pod has few capital letters,
# or "_Z", or the parts of a UUID.
_BASE64URL_RUN: Final = (
    r"(?<![\w/+@.-])(?!(?:[A-Z]{2,4}-)?[0-9a-f]{8}-[0-9a-f]{4}-)(?![\w-]*_Z)"
    r"(?=(?:[A-Za-z_-]*[0-9]){2})(?=(?:[a-z0-9_-]*[A-Z]){6})(?=(?:[A-Z0-9_-]*[a-z]){6})[\w-]{40,}={0,2}"
)
# The group stays.
RUNS: Final = (
    rf"({_KEPT})|{_HEXADECIMAL}|{_PREFIXED}|{_BASE64_RUN}|{_BASE64URL_RUN}|{_LETTERS}|{_BASE32}"
)
