/* What programs hand to the module loader. */
#ifndef TSR_IMAGE_H
#define TSR_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "driver_types.h"

/* What a loader's options say: the caller's buffers of CU_JIT_..._LOG_BUFFER, for messages, and
 * CU_JIT_MAX_REGISTERS, the most registers of a thread; 0: as many as there are. */
struct tsr_log_buffers {
  uint32_t max_registers;
  char *error, *info;
  size_t error_bytes, info_bytes;
  void **error_bytes_out, **info_bytes_out; /* entries of the option values to be updated */
};

void tsr_log_buffers_read(struct tsr_log_buffers *buffers, unsigned count,
                          const CUjit_option *options, void **values);
void tsr_log_buffers_fill(const struct tsr_log_buffers *buffers, CUresult result, const char *log,
                          size_t bytes);

/* Finds out how long the image is. Formats that cannot run are refused with a reason in `why`. */
CUresult tsr_image_measure(const void *image, size_t *bytes, const char **why);

/* An image was refused for what it holds: ends the program under TESSERA_STRICT=1. */
void tsr_image_refused(void);

/* Whether so many bytes begin a container of ours and hold all of it. */
bool tsr_image_is_container(const void *image, size_t bytes);

/* A file's bytes, padded with zeros, to be freed by the caller; NULL where it cannot be read. */
char *tsr_image_read(const char *path);
char *tsr_image_read_sized(const char *path, size_t *bytes);

#endif
