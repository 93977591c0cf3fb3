/* NVML, loaded with dlopen. A function that the loaded library lacks returns FUNCTION_NOT_FOUND. */
#pragma once

#include <stdbool.h>

#include "nvml/nvml_types.h"

#define CALL(name, parameters, arguments) nvmlReturn_t nvml_##name parameters;
#include "nvml/nvml_calls.def"
#undef CALL

/* Load libnvidia-ml.so.1; false if the loader finds none. */
bool smi_nvml_load(void);

/* NVML's text for a status. */
const char *smi_nvml_text(nvmlReturn_t status);
