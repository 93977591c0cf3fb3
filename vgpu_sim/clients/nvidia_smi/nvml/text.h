/* One value as text, and whether NVML had it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "nvml/nvml_types.h"

enum { SMI_TEXT_BYTES = 256 };

struct smi_text {
  char value[SMI_TEXT_BYTES]; /* without its unit; never a control character */
  nvmlReturn_t status;        /* what NVML answered; the value counts on success only */
};

void smi_text_format(struct smi_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What stands for the value: itself, or N/A and the like where NVML had none. */
const char *smi_text_shown(const struct smi_text *text);

/* Replaces what could forge a line: control characters and bytes that are not ASCII. */
void smi_clean(char *value);

/* Takes a string that NVML wrote into ``size`` bytes, ended or not. */
void smi_text_take(struct smi_text *text, const char *value, size_t size);
