#define _GNU_SOURCE
#include "view/report.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "config.h"
#include "transport.h"

enum { REQUEST_NUMBER = 1 };

static uint8_t packet[sizeof(tessera_header) + TESSERA_MAX_REPORT_BYTES + 1];

void tsr_request_begin(tessera_management_request *request, uint32_t operation) {
  memset(request, 0, sizeof *request);
  request->version_min = TESSERA_PROTOCOL_OLDEST;
  request->version_max = TESSERA_PROTOCOL_VERSION;
  request->operation = operation;
  memcpy(request->token, tsr_config()->token, sizeof request->token);
}

void tsr_record(void *record, const uint8_t *records, uint32_t index, size_t bytes) {
  memcpy(record, records + index * bytes, bytes);
}

/* Locate the arrays; false if the packet's size does not agree with its counts. */
static bool locate(const uint8_t *payload, size_t bytes, struct tsr_report *report) {
  const struct {
    const uint8_t **records;
    uint32_t count;
    size_t bytes;
  } arrays[] = {
      {&report->gpus, report->head.gpu_count, sizeof(tessera_gpu_record)},
      {&report->instances, report->head.instance_count, report->instance_bytes},
      {&report->processes, report->head.process_count, sizeof(tessera_process_record)},
      {&report->profiles, report->head.profile_count, sizeof(tessera_profile_record)},
      {&report->xids, report->head.xid_count, sizeof(tessera_xid_record)},
  };
  const uint8_t *at = payload + sizeof report->head;
  size_t left = bytes - sizeof report->head;
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    if (arrays[i].count > left / arrays[i].bytes) return false;
    *arrays[i].records = at;
    at += arrays[i].count * arrays[i].bytes;
    left -= arrays[i].count * arrays[i].bytes;
  }
  return left == 0;
}

static bool read_report(const uint8_t *payload, size_t bytes, struct tsr_report *report) {
  if (bytes < sizeof report->head) return false;
  memcpy(&report->head, payload, sizeof report->head);
  report->head.driver_release[sizeof report->head.driver_release - 1] = 0;
  report->instance_bytes = sizeof(tessera_instance_record);
  if (locate(payload, bytes, report)) return true;
  report->instance_bytes = offsetof(tessera_instance_record, memory_reserved_bytes);
  return locate(payload, bytes, report);
}

static nvmlReturn_t exchange(int socket, const tessera_management_request *request,
                             struct tsr_report *report, bool *absent) {
  const struct timeval limit = {.tv_sec = TSR_REPORT_TIMEOUT_S};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (!tsr_send(socket, TESSERA_MESSAGE_TYPE_MANAGEMENT, REQUEST_NUMBER, request, sizeof *request,
                -1)) {
    *absent = errno == EPIPE || errno == ECONNRESET;
    return NVML_ERROR_UNKNOWN;
  }
  ssize_t got; /* recv() without a control buffer receives no descriptors */
  do got = recv(socket, packet, sizeof packet, 0);
  while (got < 0 && errno == EINTR);
  const bool is_silent = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  *absent = got == 0 || is_silent || (got < 0 && errno == ECONNRESET);
  if (got < 0) return is_silent ? NVML_ERROR_TIMEOUT : NVML_ERROR_UNKNOWN;
  tessera_header header;
  if ((size_t)got < sizeof header || (size_t)got == sizeof packet) return NVML_ERROR_UNKNOWN;
  memcpy(&header, packet, sizeof header);
  if (header.magic != TESSERA_MAGIC || header.type != TESSERA_MESSAGE_TYPE_MANAGED ||
      header.request != REQUEST_NUMBER || header.status < 0 ||
      header.payload_bytes != (size_t)got - sizeof header)
    return NVML_ERROR_UNKNOWN;
  if (header.status != 0)
    return header.status == NVML_ERROR_ARGUMENT_VERSION_MISMATCH
               ? NVML_ERROR_LIB_RM_VERSION_MISMATCH
               : (nvmlReturn_t)header.status;
  return read_report(packet + sizeof header, header.payload_bytes, report) ? NVML_SUCCESS
                                                                           : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t tsr_ask(const char *path, const tessera_management_request *request,
                     struct tsr_report *report, bool *absent) {
  const int socket = tsr_connect(path);
  *absent = socket < 0 && tsr_is_absent(socket, path);
  if (socket == -EACCES || socket == -EPERM) return NVML_ERROR_NO_PERMISSION;
  if (socket < 0) return NVML_ERROR_DRIVER_NOT_LOADED;
  const nvmlReturn_t result = exchange(socket, request, report, absent);
  close(socket);
  return result;
}
