/* One value as text, and NVML's status for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "nvml/nvml_types.h"

enum { SMI_TEXT_BYTES = 256 };

struct smi_text {
  char value[SMI_TEXT_BYTES]; /* without its unit; never contains a control character */
  nvmlReturn_t status;        /* NVML's status; the value is valid on success only */
};

void smi_text_format(struct smi_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Return the value, or a text such as N/A if NVML has none. */
const char *smi_text_shown(const struct smi_text *text);

/* Replace characters that could forge a line: control characters and bytes that are not ASCII. */
void smi_clean(char *value);

/* Copy a string that NVML wrote into ``size`` bytes, terminated or not. */
void smi_text_take(struct smi_text *text, const char *value, size_t size);
