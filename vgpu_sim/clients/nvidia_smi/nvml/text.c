#define _GNU_SOURCE
#include "nvml/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void smi_clean(char *value) {
  for (; *value; value++)
    if (*value < ' ' || *value > '~') *value = '?';
}

void smi_text_format(struct smi_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text->value, sizeof text->value, format, arguments);
  va_end(arguments);
  smi_clean(text->value);
}

void smi_text_take(struct smi_text *text, const char *value, size_t size) {
  const size_t length = strnlen(value, size);
  smi_text_format(text, "%.*s", (int)length, value);
}

const char *smi_text_shown(const struct smi_text *text) {
  switch (text->status) {
    case NVML_SUCCESS:
      return text->value;
    case NVML_ERROR_NOT_SUPPORTED:
    case NVML_ERROR_NOT_FOUND:
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "N/A";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}
