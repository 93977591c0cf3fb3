/* The product's version. tests/integration/nvidia/test_nvidia_smi_parsers.py compares it with
   pyproject.toml. */
#pragma once

#define SMI_VERSION "0.1.0"
