/* The driver's latest messages, and the functions of the program that receive them. */
#ifndef TSR_LOG_LINES_H
#define TSR_LOG_LINES_H

#include <stdbool.h>

#include "driver_types.h"

/* What is kept, as CUDA documents it. */
enum { TSR_LOG_BYTES = 25600 };

/* The number of the next message. */
CUlogIterator tsr_log_next(void);

/* Copy the messages from number `from` on into a buffer, as a string. If older ones are missing, the
 * first line says so: they were overwritten, or there is no room for them; the latest messages are
 * kept. `*next` is the number of the next message. Returns the bytes without the NUL, or 0: there are
 * no messages, or (`*none_fits`) not one has room. */
size_t tsr_log_read(CUlogIterator from, char *buffer, size_t room, CUlogIterator *next,
                     bool *none_fits);

/* Call a function for each message. False: too many functions. */
bool tsr_log_listen(CUlogsCallback function, void *data, CUlogsCallbackHandle *handle);

/* Stop to; no thread is in the function any more, except perhaps the caller. */
bool tsr_log_ignore(CUlogsCallbackHandle handle);

#endif
