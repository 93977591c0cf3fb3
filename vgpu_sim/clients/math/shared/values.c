#include "values.h"

#include <string.h>

bool tsr_values_set(struct tsr_values *values, int number, const void *value, size_t bytes) {
  if (number < 0 || number >= TSR_MAX_VALUES || !value || bytes == 0 || bytes > TSR_MAX_VALUE_BYTES)
    return false;
  memcpy(values->at[number].bytes, value, bytes);
  values->at[number].size = (uint8_t)bytes;
  return true;
}

bool tsr_values_fits(const struct tsr_values *values, int number, size_t bytes) {
  if (number < 0 || number >= TSR_MAX_VALUES) return false;
  const size_t size = values->at[number].size;
  return size == 0 || size == bytes;
}

bool tsr_values_get(const struct tsr_values *values, int number, void *value, size_t bytes,
                    size_t *written) {
  if (number < 0 || number >= TSR_MAX_VALUES || values->at[number].size == 0) return false;
  const size_t size = values->at[number].size;
  if (bytes == 0 ? !written : !value || bytes < size) return false;
  if (bytes) memcpy(value, values->at[number].bytes, size);
  if (written) *written = size;
  return true;
}

int64_t tsr_values_number(const struct tsr_values *values, int number, int64_t otherwise) {
  int64_t wide;
  int32_t narrow;
  switch (values->at[number].size) {
    case sizeof narrow: memcpy(&narrow, values->at[number].bytes, sizeof narrow); return narrow;
    case sizeof wide: memcpy(&wide, values->at[number].bytes, sizeof wide); return wide;
    default: return otherwise;
  }
}
