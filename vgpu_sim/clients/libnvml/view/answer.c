#define _GNU_SOURCE
#include "view/answer.h"

#include <stdio.h>
#include <string.h>

nvmlReturn_t tsr_copy_text(char *buffer, unsigned int length, const char *text) {
  if (!buffer) return NVML_ERROR_INVALID_ARGUMENT;
  const size_t bytes = strlen(text) + 1;
  if (bytes > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(buffer, text, bytes);
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_gpu(nvmlDevice_t handle, enum tsr_age age, struct tsr_device *device) {
  const nvmlReturn_t result = tsr_device(handle, age, device);
  if (result == NVML_SUCCESS && device->is_mig) return NVML_ERROR_NOT_SUPPORTED;
  return result;
}

void tsr_uuid_text(const char *prefix, const uint8_t *uuid, char text[TSR_UUID_TEXT_BYTES]) {
  char *at = text + snprintf(text, TSR_UUID_TEXT_BYTES, "%s", prefix);
  for (int i = 0; i < (int)TESSERA_UUID_BYTES; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
    at += snprintf(at, 3, "%02x", uuid[i]);
  }
}

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool tsr_uuid_read(const char *text, char prefix[5], uint8_t uuid[TESSERA_UUID_BYTES]) {
  if (strnlen(text, TSR_UUID_TEXT_BYTES) != TSR_UUID_TEXT_BYTES - 1) return false;
  memcpy(prefix, text, 4);
  prefix[4] = 0;
  const char *at = text + 4;
  for (int i = 0; i < (int)TESSERA_UUID_BYTES; i++) {
    if ((i == 4 || i == 6 || i == 8 || i == 10) && *at++ != '-') return false;
    const int high = digit(*at++), low = high < 0 ? -1 : digit(*at++);
    if (low < 0) return false;
    uuid[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}
