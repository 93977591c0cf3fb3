/* A request to gpud (vgpu_sim/hal/management/nvml.py) and its reply. */
#ifndef TSR_REPORT_H
#define TSR_REPORT_H

#include <stdbool.h>

#include "nvml_types.h"
#include "tessera_abi.h"

enum { TSR_REPORT_TIMEOUT_S = 10 };

/* The records of one REPORT; they point into the packet received last. */
struct tsr_report {
  tessera_management_report head;
  const uint8_t *gpus, *instances, *processes, *profiles, *xids;
  size_t instance_bytes; /* of each record: an older gpud's end before memory_reserved_bytes */
};

/* Fill in a request's versions and its token. */
void tsr_request_begin(tessera_management_request *request, uint32_t operation);

/* Send a request to the socket at `path`. `*absent` is set if no gpud serves it at the moment:
 * the folder exists but the socket has no listener, or the listener closed the connection before
 * it replied, or has not replied within TSR_REPORT_TIMEOUT_S (NVML_ERROR_TIMEOUT). On NVML_SUCCESS the report is complete and its counts are valid. The caller holds
 * the view. */
nvmlReturn_t tsr_ask(const char *path, const tessera_management_request *request,
                     struct tsr_report *report, bool *absent);

/* Copy record `index` of an array of unaligned records of `bytes` each. */
void tsr_record(void *record, const uint8_t *records, uint32_t index, size_t bytes);

#endif
