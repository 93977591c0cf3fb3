/* The slices that this process may use: the folders MIG-... in TESSERA_SLICES_DIR, and GPU-...
 * for undivided GPUs. */
#ifndef TSR_SLICES_H
#define TSR_SLICES_H

#include "transport.h"

enum { TSR_MAX_SLICES = 512, TSR_SLICE_NAME_BYTES = 128, TSR_SOCKET_PATH_BYTES = 512, TSR_QUERY_TIMEOUT_S = 5 };

struct tsr_slice_name {
  char text[TSR_SLICE_NAME_BYTES];
};

struct tsr_slice {
  tessera_device_info info; /* its strings are terminated */
  char socket_path[TSR_SOCKET_PATH_BYTES];
};

/* Fill in at most TSR_MAX_SLICES names, in order; returns their number. */
int tsr_slices_list(struct tsr_slice_name *names);

/* Request the description of a slice from gpud. `thread_share` is the share that the program
 * requests, as in tessera_hello. On TSR_RECEIVED `*status` is gpud's status; if that is 0, the
 * slice is filled in. TSR_SILENT: there was no reply within TSR_QUERY_TIMEOUT_S. Not thread-safe. */
enum tsr_outcome tsr_slice_query(const struct tsr_slice_name *name, uint32_t thread_share,
                                 struct tsr_slice *slice, int32_t *status);

#endif
