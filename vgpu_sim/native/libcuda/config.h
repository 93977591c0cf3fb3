/* The only reader of environment variables. */
#ifndef TSR_CONFIG_H
#define TSR_CONFIG_H

#include <stdbool.h>

#include "tessera_abi.h"

struct tsr_config {
  bool quiet;   /* TESSERA_LOG=quiet: say nothing */
  bool strict;  /* TESSERA_STRICT=1: abort where NOT_SUPPORTED would be answered */
  bool relaxed; /* TESSERA_RELAXED=1: device memory can be dereferenced by the host */
  const char *slices_dir;      /* TESSERA_SLICES_DIR */
  const char *visible_devices; /* CUDA_VISIBLE_DEVICES; NULL where unset */
  const char *trace_path;      /* TESSERA_TRACE; NULL where unset */
  bool token_valid;
  uint8_t token[TESSERA_TOKEN_BYTES]; /* TESSERA_TOKEN, 64 hex digits; zeros where unset */
};

/* Read when the library is loaded, and again by cuInit (programs set variables before it). */
const struct tsr_config *tsr_config(void);
void tsr_config_read(void);

#endif
