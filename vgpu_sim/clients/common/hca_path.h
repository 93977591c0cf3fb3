/* Where hcad listens. Libraries that include this document TESSERA_HCA. */
#ifndef TSR_HCA_PATH_H
#define TSR_HCA_PATH_H

#include <stdlib.h>
#include <unistd.h>

/* NULL: there is no HCA. A pod sets nothing in its environment: there the function's folder is
 * always mounted at the same place. */
static inline const char *tsr_hca_path(void) {
  static const char POD_PATH[] = "/run/tessera/function/hca.sock";
  const char *path = getenv("TESSERA_HCA");
  if (path && *path) return path;
  return access(POD_PATH, F_OK) == 0 ? POD_PATH : NULL;
}

#endif
