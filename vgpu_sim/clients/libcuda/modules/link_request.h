/* The inputs of a link, and the request that the worker links or checks them (MODULE_LINK). */
#ifndef TSR_LINK_REQUEST_H
#define TSR_LINK_REQUEST_H

#include "modules/module.h"

/* Append an input to `inputs`, which has `bytes` and may move. */
CUresult tsr_link_append(uint8_t **inputs, size_t *bytes, const char *name, uint32_t kind,
                         const void *image, size_t image_bytes);

/* Have the worker link or check. `answer`, unless NULL, receives the result, of `answer_bytes`,
 * which the caller frees. `refused` is set if the worker has rejected the inputs; `what` names them
 * in the log. */
CUresult tsr_link_request(struct tsr_context *context, const void *inputs, size_t size,
                          uint32_t flags, const struct tsr_log_buffers *logs, const char *what,
                          bool *refused, uint8_t **answer, size_t *answer_bytes);

#endif
