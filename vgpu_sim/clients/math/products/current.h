/* The context in which a handle's functions compute. */
#ifndef TSR_CURRENT_H
#define TSR_CURRENT_H

#include <stdbool.h>

struct tsr_current {
  int device;     /* of the context in which the handle was made */
  void *retained; /* the device's primary context, once a thread without a context has computed */
};

/* Initialise the driver and note the device of the calling thread's context, or device 0. */
bool tsr_current_init(struct tsr_current *current);

/* Give a thread that has no context the primary context of the device, as NVIDIA's libraries do
 * through the runtime. */
bool tsr_current_enter(struct tsr_current *current);

/* Release what tsr_current_enter has retained. */
void tsr_current_end(const struct tsr_current *current);

#endif
