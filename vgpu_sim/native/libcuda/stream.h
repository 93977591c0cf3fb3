/* Streams: names for ring indices. */
#ifndef TSR_STREAM_H
#define TSR_STREAM_H

#include "objects.h"

/* The ring of a stream handle in the context; NULL and CU_STREAM_LEGACY are the legacy stream. */
CUresult tsr_stream_index(const struct tsr_context *context, CUstream handle, uint32_t *index);

#endif
