/* One line about a kernel that does not end, for people who wait for it. */
#ifndef TSR_HANG_H
#define TSR_HANG_H

#include "base/objects.h"

/* What a waiting thread knows: zeroed when the wait begins. */
struct tsr_hang {
  uint32_t stream; /* whose first request is in the way ... */
  uint64_t value;  /* ... this one; 0: not looked yet */
  uint64_t since_ns;
  int limit_s;     /* once looked */
  bool looked, told;
};

/* Looked at now and then by a thread that waits for `stream`: logs the kernel in the way when it
 * has been there for TESSERA_HANG_NOTICE_S seconds. */
void tsr_hang_look(struct tsr_context *context, uint32_t stream, struct tsr_hang *hang);

#endif
