/* The path of hcad's socket. A library that includes this header documents TESSERA_HCA. */
#ifndef TSR_HCA_PATH_H
#define TSR_HCA_PATH_H

#include <stdlib.h>
#include <unistd.h>

/* Return the path; NULL: there is no HCA. A pod needs no variable for it, because its function's
 * folder is always mounted at the same path. */
static inline const char *tsr_hca_path(void) {
  static const char POD_PATH[] = "/run/tessera/function/hca.sock";
  const char *path = getenv("TESSERA_HCA");
  if (path && *path) return path;
  return access(POD_PATH, F_OK) == 0 ? POD_PATH : NULL;
}

#endif
