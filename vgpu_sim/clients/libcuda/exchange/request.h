/* Requests that a context's worker (or gpud) answers on the slice's socket. */
#ifndef TSR_REQUEST_H
#define TSR_REQUEST_H

#include "base/objects.h"

/* What a greeting's end means to the program. NO_DEVICE: nobody answered. */
CUresult tsr_hello_result(enum tsr_outcome outcome, int32_t status);

/* One request to the context's worker; others may ask meanwhile and be answered before. A closed
 * socket is the context's end. `pass_fd` or -1. */
CUresult tsr_ask(struct tsr_context *context, uint16_t type, const void *payload, uint32_t bytes,
                 int pass_fd, struct tsr_reply *reply);

/* Waits until nobody asks any more. */
void tsr_finish_questions(struct tsr_context *context);

#endif
