/* What the functions have in common: texts into callers' buffers, and what a device may be asked. */
#ifndef TSR_ANSWER_H
#define TSR_ANSWER_H

#include <time.h>

#include "view/view.h"

/* INSUFFICIENT_SIZE where the text and its end do not fit. */
nvmlReturn_t tsr_copy_text(char *buffer, unsigned int length, const char *text);

/* Finds a GPU for what hardware says of GPUs only: NOT_SUPPORTED for a MIG device. */
nvmlReturn_t tsr_gpu(nvmlDevice_t handle, enum tsr_age age, struct tsr_device *device);

/* "GPU-..." or "MIG-...", 40 characters and the end. */
enum { TSR_UUID_TEXT_BYTES = 41 };
void tsr_uuid_text(const char *prefix, const uint8_t *uuid, char text[TSR_UUID_TEXT_BYTES]);

/* Reads "GPU-..." or "MIG-..."; the prefix is copied; false where it is no UUID. */
bool tsr_uuid_read(const char *text, char prefix[5], uint8_t uuid[TESSERA_UUID_BYTES]);

/* Microseconds since the epoch, as NVML's time stamps are. */
static inline unsigned long long tsr_wall_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (unsigned long long)now.tv_sec * 1000000u + (unsigned long long)now.tv_nsec / 1000u;
}

#endif
