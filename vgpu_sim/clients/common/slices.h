/* The slices that this process may use: the folders MIG-... in TESSERA_SLICES_DIR, and GPU-... of
 * GPUs that are not divided. */
#ifndef TSR_SLICES_H
#define TSR_SLICES_H

#include "transport.h"

enum { TSR_MAX_SLICES = 512, TSR_SLICE_NAME_BYTES = 128, TSR_SOCKET_PATH_BYTES = 512 };

struct tsr_slice_name {
  char text[TSR_SLICE_NAME_BYTES];
};

struct tsr_slice {
  tessera_device_info info; /* its texts are terminated */
  char socket_path[TSR_SOCKET_PATH_BYTES];
};

/* Fills `names` with at most TSR_MAX_SLICES names in order and returns how many there are. */
int tsr_slices_list(struct tsr_slice_name *names);

/* Asks gpud about the slice of that name; the program wants `thread_share` of it, as tessera_hello
 * has it. On TSR_RECEIVED `*status` is gpud's answer, and the slice is filled in when that is 0.
 * Callers take turns. */
enum tsr_outcome tsr_slice_query(const struct tsr_slice_name *name, uint32_t thread_share,
                                 struct tsr_slice *slice, int32_t *status);

#endif
