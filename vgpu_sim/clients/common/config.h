/* The TESSERA_... environment variables that all client libraries read. */
#ifndef TSR_CONFIG_H
#define TSR_CONFIG_H

#include <stdbool.h>

#include "tessera_abi.h"

struct tsr_config {
  bool strict;  /* TESSERA_STRICT=1: abort on anything that is not supported */
  bool relaxed; /* TESSERA_RELAXED=1: device memory can be dereferenced by the host */
  const char *slices_dir; /* TESSERA_SLICES_DIR */
  const char *trace_path; /* TESSERA_TRACE; NULL where unset */
  int wait_s;             /* TESSERA_WAIT_S: how long to wait for gpud or hcad, see patience.h */
  uint8_t token[TESSERA_TOKEN_BYTES]; /* TESSERA_TOKEN, 64 hex digits; zeros where unset */
};

/* Read the environment: when the library is loaded, and again when it is initialised, because
 * programs set variables in between. log.h handles TESSERA_LOG. */
const struct tsr_config *tsr_config(void);
void tsr_config_read(void);

#endif
