#define _GNU_SOURCE
#include "link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "hca_path.h"
#include "log.h"
#include "patience.h"
#include "transport.h"

enum { HANGUP_MS = 1000 };

static struct {
  pthread_mutex_t asking; /* one request at a time */
  int socket;
  uint32_t next_request;
  bool dead;
} hcad = {.asking = PTHREAD_MUTEX_INITIALIZER, .socket = -1};

static int exchange(uint16_t type, const void *payload, uint32_t bytes, void *answer,
                    uint32_t answer_bytes, int *fd) {
  const uint32_t request = ++hcad.next_request;
  struct tsr_reply reply;
  uint16_t answered_type = 0;
  uint32_t answered = 0;
  if (!tsr_send(hcad.socket, type, request, payload, bytes, -1) ||
      tsr_receive(hcad.socket, &answered_type, &answered, &reply) != TSR_RECEIVED) {
    hcad.dead = true;
    tsr_log("hcad has gone: no connection of this program can be made or ended any more");
    return EIO;
  }
  int error = reply.status;
  if (answered_type != type + 1 || answered != request ||
      reply.payload_bytes != (error ? 0 : answer_bytes) || (!error && fd && reply.fds[0] < 0)) {
    hcad.dead = true;
    error = EPROTO;
  }
  if (error == 0) {
    if (answer_bytes) memcpy(answer, reply.payload, answer_bytes);
    if (fd) {
      *fd = reply.fds[0];
      reply.fds[0] = -1;
    }
  }
  tsr_reply_close(&reply);
  return error;
}

static int open_once(const char *path) {
  hcad.socket = tsr_connect(path);
  if (hcad.socket < 0) {
    tsr_log("no HCA: %s: %s", path, strerror(-hcad.socket));
    return ENODEV;
  }
  tessera_hca_hello hello = {.version = TESSERA_HCA_VERSION};
  memcpy(hello.token, tsr_config()->token, sizeof hello.token);
  tessera_hca_device info;
  const int error =
      exchange(TESSERA_CM_MESSAGE_OPEN, &hello, sizeof hello, &info, sizeof info, NULL);
  if (error == 0) return 0;
  if (error != EAGAIN) tsr_log("hcad does not open its HCA for this program: %s", strerror(error));
  close(hcad.socket);
  hcad.socket = -1;
  return error;
}

static int open_link(void) {
  const char *path = tsr_hca_path();
  if (!path) return ENODEV;
  struct tsr_patience patience = {0};
  int error;
  do error = open_once(path);
  while (error == EAGAIN && tsr_patience_wait_for_function(&patience, path));
  return error ? ENODEV : 0;
}

int tsr_cm_ask(uint16_t type, const void *payload, uint32_t bytes, void *answer,
               uint32_t answer_bytes, int *fd) {
  pthread_mutex_lock(&hcad.asking);
  int error = hcad.dead ? EIO : hcad.socket < 0 ? open_link() : 0;
  if (error == 0) error = exchange(type, payload, bytes, answer, answer_bytes, fd);
  pthread_mutex_unlock(&hcad.asking);
  return error;
}

int tsr_cm_ask_handle(uint16_t type, uint32_t handle) {
  const tessera_hca_handle wanted = {.handle = handle};
  return tsr_cm_ask(type, &wanted, sizeof wanted, NULL, 0, NULL);
}

bool tsr_cm_is_dead(void) {
  struct pollfd end = {.fd = hcad.socket, .events = POLLRDHUP};
  return hcad.dead || poll(&end, 1, HANGUP_MS) != 0;
}

int tsr_cm_result(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}
