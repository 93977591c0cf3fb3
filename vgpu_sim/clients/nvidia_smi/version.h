/* The product's version; tests/unit/native/test_nvidia_smi.py compares it with pyproject.toml. */
#pragma once

#define SMI_VERSION "0.1.0"
