/* Attributes of descriptors: values of a few bytes by number. */
#ifndef TSR_VALUES_H
#define TSR_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TSR_MAX_VALUE_BYTES = 128, TSR_MAX_VALUES = 64 };

struct tsr_values {
  struct {
    uint8_t bytes[TSR_MAX_VALUE_BYTES];
    uint8_t size; /* 0: not set */
  } at[TSR_MAX_VALUES];
};

/* Set a value; false if the number or the size is out of range. */
bool tsr_values_set(struct tsr_values *values, int number, const void *value, size_t bytes);

/* Whether a value has this size, or has not been set. */
bool tsr_values_fits(const struct tsr_values *values, int number, size_t bytes);

/* Copy a value that was set, and its size where `written` is not NULL. With a buffer of 0 bytes
 * only the size is returned. False if the value was not set or does not fit. */
bool tsr_values_get(const struct tsr_values *values, int number, void *value, size_t bytes,
                    size_t *written);

/* Return a value of 4 or 8 bytes, sign-extended, or `otherwise` if it was not set. */
int64_t tsr_values_number(const struct tsr_values *values, int number, int64_t otherwise);

#endif
