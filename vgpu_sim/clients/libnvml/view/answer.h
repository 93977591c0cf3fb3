/* Helpers of the API functions: texts into callers' buffers, UUIDs, and devices by handle. */
#ifndef TSR_ANSWER_H
#define TSR_ANSWER_H

#include <time.h>

#include "view/view.h"

/* Copy a text; INSUFFICIENT_SIZE if it does not fit with its terminator. */
nvmlReturn_t tsr_copy_text(char *buffer, unsigned int length, const char *text);

/* Find a GPU for a property that only GPUs have: NOT_SUPPORTED for a MIG device. */
nvmlReturn_t tsr_gpu(nvmlDevice_t handle, enum tsr_age age, struct tsr_device *device);

/* Write "GPU-..." or "MIG-...": 40 characters and the terminator. */
enum { TSR_UUID_TEXT_BYTES = 41 };
void tsr_uuid_text(const char *prefix, const uint8_t *uuid, char text[TSR_UUID_TEXT_BYTES]);

/* Parse "GPU-..." or "MIG-..."; the prefix is copied. False for an invalid UUID. */
bool tsr_uuid_read(const char *text, char prefix[5], uint8_t uuid[TESSERA_UUID_BYTES]);

/* Microseconds since the epoch, as in NVML's time stamps. */
static inline unsigned long long tsr_wall_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (unsigned long long)now.tv_sec * 1000000u + (unsigned long long)now.tv_nsec / 1000u;
}

#endif
