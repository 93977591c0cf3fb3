"""Names of the files in a fabric's folder, for hcad and for the programs that look for it."""

from typing import Final

SOCKET_NAME: Final = "hca.sock"
SYSFS_NAME: Final = "sysfs"
LOCK_NAME: Final = "lock"
ADMIN_NAME: Final = "admin.sock"
POLICY_NAME: Final = "policy.json"
"""Name of the file with the members' labels and policies; only members read and write this file."""
