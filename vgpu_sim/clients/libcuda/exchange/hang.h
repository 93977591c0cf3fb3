/* A message about a kernel that does not end, for the user whose program waits for it. */
#ifndef TSR_HANG_H
#define TSR_HANG_H

#include "base/objects.h"

/* State of a waiting thread; zeroed when the wait begins. */
struct tsr_hang {
  uint32_t stream; /* stream whose first request blocks the wait */
  uint64_t value;  /* that request; 0: not determined yet */
  uint64_t since_ns;
  int limit_s;     /* valid once `looked` */
  bool looked, reported;
};

/* Log the kernel that blocks `stream` after TESSERA_HANG_NOTICE_S seconds. A thread that waits
 * for the stream calls this from time to time. */
void tsr_hang_look(struct tsr_context *context, uint32_t stream, struct tsr_hang *hang);

#endif
