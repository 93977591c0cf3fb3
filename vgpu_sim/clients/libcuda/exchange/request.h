/* Requests to a context's worker (or gpud) on the slice's socket. */
#ifndef TSR_REQUEST_H
#define TSR_REQUEST_H

#include "base/objects.h"

/* Convert the outcome of a HELLO to a result for the program. NO_DEVICE: there was no reply. */
CUresult tsr_hello_result(enum tsr_outcome outcome, int32_t status);

/* Send one request to the context's worker and wait for its reply; other threads' requests may
 * complete before. A closed socket ends the context. `pass_fd` is sent along; -1: none. */
CUresult tsr_ask(struct tsr_context *context, uint16_t type, const void *payload, uint32_t bytes,
                 int pass_fd, struct tsr_reply *reply);

/* Wait until no request is outstanding. */
void tsr_finish_questions(struct tsr_context *context);

#endif
