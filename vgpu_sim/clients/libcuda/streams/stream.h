/* Streams: names for ring indices. */
#ifndef TSR_STREAM_H
#define TSR_STREAM_H

#include "base/objects.h"

/* The ring of a stream handle in the context; NULL and CU_STREAM_LEGACY are the legacy stream. */
CUresult tsr_stream_index(const struct tsr_context *context, CUstream handle, uint32_t *index);

/* The context and ring of a stream, whichever context is current; the legacy stream is that of the
 * current context. An error where the context is dead. */
CUresult tsr_stream_locate(CUstream handle, struct tsr_context **context, uint32_t *index);

#endif
