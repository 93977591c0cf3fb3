/* Calls that are potentially unsafe while streams capture, such as cuMemAlloc: which of them a capture
 * forbids depends on its mode and on the thread's (cuThreadExchangeStreamCaptureMode). */
#ifndef TSR_UNSAFE_H
#define TSR_UNSAFE_H

#include "base/objects.h"

/* A capture in progress, as far as such calls must know it. */
struct tsr_capture_mark {
  struct tsr_capture_mark *next;
  CUstreamCaptureMode mode;
  pthread_t thread;
  _Atomic bool broken; /* a forbidden call has been made */
};

void tsr_capture_mark_add(struct tsr_capture_mark *mark);
void tsr_capture_mark_remove(struct tsr_capture_mark *mark);

/* Set the calling thread's mode and return the one before. */
CUstreamCaptureMode tsr_capture_mode_set(CUstreamCaptureMode mode);

/* Check that the calling thread may make an unsafe call. If it may not, the captures that forbid the
 * call become invalid, and the result is STREAM_CAPTURE_UNSUPPORTED. */
CUresult tsr_capture_check_unsafe(void);

#endif
