/* Copies between resolved addresses. */
#ifndef TSR_COPY_H
#define TSR_COPY_H

#include "base/objects.h"
#include "exchange/ring_copy.h"

/* Source or destination of a copy. */
struct tsr_end {
  uint64_t address;
  uint8_t *host;               /* the client's mapping; NULL for module variables */
  struct tsr_context *context; /* NULL for pageable host memory */
  bool device;                 /* device memory or a module variable */
};

/* Resolve a range: of any memory; of memory that the device can access (device memory, module
 * variables, pinned memory); of memory that the host can access. A range in the aperture must be
 * allocated completely. */
typedef CUresult tsr_locator(uint64_t address, uint64_t bytes, struct tsr_end *end);
CUresult tsr_locate_any(uint64_t address, uint64_t bytes, struct tsr_end *end);
CUresult tsr_locate_device(uint64_t address, uint64_t bytes, struct tsr_end *end);
CUresult tsr_locate_host(uint64_t address, uint64_t bytes, struct tsr_end *end);

/* Copy in the order of the stream. With `now`, a copy from or to host memory is done when this
 * returns. */
CUresult tsr_copy_between(struct tsr_context *context, uint32_t stream, const struct tsr_end *to,
                          const struct tsr_end *from, uint64_t bytes, bool now);

/* Count a copy that the client has made, for metrics; `since_ns` 0: it was not timed. */
void tsr_copy_count(tessera_client_area *area, const struct tsr_end *to,
                    const struct tsr_end *from, uint64_t bytes, uint64_t since_ns);

/* Whether a copy in the legacy stream is refused because a blocking stream captures. */
bool tsr_copy_is_blocked(const struct tsr_context *context, uint32_t stream);

#endif
