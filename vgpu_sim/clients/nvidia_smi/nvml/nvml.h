/* NVML, found with dlopen. A function that the library lacks answers FUNCTION_NOT_FOUND. */
#pragma once

#include <stdbool.h>

#include "nvml/nvml_types.h"

#define CALL(name, parameters, arguments) nvmlReturn_t nvml_##name parameters;
#include "nvml/nvml_calls.def"
#undef CALL

/* Loads libnvidia-ml.so.1; false where the loader finds none. */
bool smi_nvml_load(void);

/* NVML's words for a status. */
const char *smi_nvml_text(nvmlReturn_t status);
