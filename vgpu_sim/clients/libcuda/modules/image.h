/* Images that programs pass to the module loader. */
#ifndef TSR_IMAGE_H
#define TSR_IMAGE_H

#include <stdint.h>

#include "driver_types.h"

/* A loader's options: the caller's message buffers (CU_JIT_..._LOG_BUFFER), and the limit of
 * registers per thread (CU_JIT_MAX_REGISTERS; 0: no limit). */
struct tsr_log_buffers {
  uint32_t max_registers;
  char *error, *info;
  size_t error_bytes, info_bytes;
  void **error_bytes_out, **info_bytes_out; /* option values to be updated */
};

void tsr_log_buffers_read(struct tsr_log_buffers *buffers, unsigned count,
                          const CUjit_option *options, void **values);
void tsr_log_buffers_fill(const struct tsr_log_buffers *buffers, CUresult result, const char *log,
                          size_t bytes);

/* The room of an image that a program passes by pointer alone. */
#define TSR_IMAGE_IN_MEMORY SIZE_MAX

/* Determine the length of an image that ends within `room` bytes, and follow the pointer of a fat
 * binary's wrapper. An image that cannot run is refused: the reason is logged, also in the
 * caller's buffers. */
CUresult tsr_image_check(const void **image, size_t room, size_t *bytes,
                         const struct tsr_log_buffers *logs);

/* Called when an image was refused for its content; ends the program under TESSERA_STRICT=1. */
void tsr_image_refused(void);

/* Read a file, padded with zeros; the caller frees it. NULL if it cannot be read. */
char *tsr_image_read(const char *path, size_t *bytes);

#endif
