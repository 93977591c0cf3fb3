"""Why a pod waits for devices, and what would free them."""
