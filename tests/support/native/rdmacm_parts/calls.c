/* Calls of librdmacm whose hcad is the test: it records requests, and answers as the test
   specifies. */
#include <errno.h>
#include <string.h>

#include "api.h"
#include "ids.h"

static struct tsr_id id;
static struct ibv_qp qp;
static struct cm_seen {
  uint32_t type, bytes, completions, bindings, failures, connections;
  uint8_t resources, depth;
  uint8_t payload[512];
} seen;
static struct {
  int error, device_error, qp_result;
  tessera_cm_route route;
} answers;

int tsr_cm_ask(uint16_t type, const void *payload, uint32_t bytes, void *answer,
               uint32_t answer_bytes, int *fd) {
  (void)fd;
  seen.type = type;
  seen.bytes = bytes;
  memcpy(seen.payload, payload, bytes);
  if (answers.error == 0 && answer_bytes) memcpy(answer, &answers.route, answer_bytes);
  return answers.error;
}
int tsr_cm_ask_handle(uint16_t type, uint32_t handle) {
  return tsr_cm_ask(type, &handle, sizeof handle, NULL, 0, NULL);
}
int tsr_cm_result(int error) {
  if (error) errno = error;
  return error ? -1 : 0;
}
int tsr_complete(struct tsr_id *of) {
  seen.completions += of == &id;
  return 0;
}
int tsr_id_bind_device(struct tsr_id *of) {
  seen.bindings += of == &id;
  return answers.device_error;
}
int tsr_qp_connect(struct tsr_id *of, uint8_t resources, uint8_t depth) {
  seen.connections += of == &id;
  seen.resources = resources;
  seen.depth = depth;
  errno = EPERM;
  return answers.qp_result;
}
void tsr_qp_fail(struct tsr_id *of) { seen.failures += of == &id; }

/* An id with handle 0x51; `kind` is that of its queue pairs. It has queue pair number 0x61 or
   none. */
struct tsr_id *cm_begin(int kind, bool has_qp, bool has_srq) {
  static struct ibv_srq srq;
  id = (struct tsr_id){.handle = 0x51, .qkey = 0x71, .reuse = true};
  id.traffic_class = 0x81, id.ack_timeout = 0x19;
  id.responder_resources = 5, id.initiator_depth = 6;
  id.rdma.qp_type = kind;
  qp.qp_num = 0x61;
  id.rdma.qp = has_qp ? &qp : NULL;
  id.rdma.srq = has_srq ? &srq : NULL;
  memset(&seen, 0, sizeof seen);
  memset(&answers, 0, sizeof answers);
  return &id;
}
const struct cm_seen *cm_seen(void) { return &seen; }
void cm_answer(int error, int device_error, int qp_result, const tessera_cm_route *route) {
  answers.error = error;
  answers.device_error = device_error;
  answers.qp_result = qp_result;
  if (route) answers.route = *route;
}
void cm_addresses(uint8_t *source, uint8_t *destination) {
  memcpy(source, &id.rdma.route.addr.src_storage, 28);
  memcpy(destination, &id.rdma.route.addr.dst_storage, 28);
}
