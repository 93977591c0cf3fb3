/* One request to gpud (vgpu_sim/hal/management/nvml.py) and its answer. */
#ifndef TSR_REPORT_H
#define TSR_REPORT_H

#include <stdbool.h>

#include "nvml_types.h"
#include "tessera_abi.h"

/* The records of one REPORT; they point into the packet that came last. */
struct tsr_report {
  tessera_management_report head;
  const uint8_t *gpus, *instances, *processes, *profiles, *xids;
};

/* Fills a request's versions and token. */
void tsr_request_begin(tessera_management_request *request, uint32_t operation);

/* Sends a request to the socket at `path`. `*absent` says that no gpud serves it at the moment: it has
 * no listener in a folder that is there, or the listener hung up before it answered. The report
 * is whole and its counts are right where the answer is NVML_SUCCESS. Callers take turns. */
nvmlReturn_t tsr_ask(const char *path, const tessera_management_request *request,
                     struct tsr_report *report, bool *absent);

/* Copies record `index` of an array of records of `bytes`, which are not aligned. */
void tsr_record(void *record, const uint8_t *records, uint32_t index, size_t bytes);

#endif
