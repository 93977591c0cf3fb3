/* Streams: handles for ring indices. */
#ifndef TSR_STREAM_H
#define TSR_STREAM_H

#include "base/objects.h"

/* Return the ring of a stream handle in the context; NULL and CU_STREAM_LEGACY are the legacy
 * stream. */
CUresult tsr_stream_index(const struct tsr_context *context, CUstream handle, uint32_t *index);

/* Find the context and ring of a stream, whichever context is current; the legacy stream belongs
 * to the current context. Returns an error if the context has failed. */
CUresult tsr_stream_locate(CUstream handle, struct tsr_context **context, uint32_t *index);

#endif
