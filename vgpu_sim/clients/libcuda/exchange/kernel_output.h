/* The FIFO into which a context's kernels write their output. */
#ifndef TSR_KERNEL_OUTPUT_H
#define TSR_KERNEL_OUTPUT_H

#include "base/objects.h"

/* Offsets in the system area, in words of 8 bytes (compiler/system_calls.ptx); the FIFO begins
 * after its header. */
enum {
  TSR_AREA_FIFO_BYTES,
  TSR_AREA_WRITTEN,
  TSR_AREA_READ,
  TSR_AREA_HEAP_BYTES,
  TSR_AREA_HEAP_USED,
  TSR_AREA_FIFO,
  TSR_AREA_HEAP,
  TSR_AREA_SELF
};
enum { TSR_AREA_HEAD_BYTES = 4096 };

/* Print what kernels have written so far; takes no other lock than the FIFO's own. */
void tsr_kernel_output_print(struct tsr_context *context);

/* Called before the context's memory is unmapped. */
void tsr_kernel_output_drop(struct tsr_context *context);

#endif
