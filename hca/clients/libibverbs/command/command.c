#define _GNU_SOURCE
#include "command/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "config.h"
#include "log.h"
#include "patience.h"
#include "transport.h"

enum { FIRST_REQUEST = 1, OPEN_TIMEOUT_S = 5 };

static int open_on(int socket, tessera_hca_device *info, int fds[2]) {
  tessera_hca_hello hello = {.version = TESSERA_HCA_VERSION};
  memcpy(hello.token, tsr_config()->token, sizeof hello.token);
  const struct timeval limit = {.tv_sec = OPEN_TIMEOUT_S}, none = {0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (!tsr_send(socket, TESSERA_HCA_MESSAGE_OPEN, FIRST_REQUEST, &hello, sizeof hello, -1))
    return EIO;
  struct tsr_reply reply;
  uint16_t type = 0;
  uint32_t request = 0;
  if (tsr_receive(socket, &type, &request, &reply) != TSR_RECEIVED) return EIO;
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  int error = reply.status;
  if (error == 0 && (type != TESSERA_HCA_MESSAGE_OPEN + 1 ||
                     reply.payload_bytes != sizeof *info || reply.fds[1] < 0))
    error = EPROTO;
  if (error != 0) {
    tsr_reply_close(&reply);
    return error;
  }
  memcpy(info, reply.payload, sizeof *info);
  info->name[sizeof info->name - 1] = info->firmware[sizeof info->firmware - 1] = 0;
  info->board[sizeof info->board - 1] = info->sysfs[sizeof info->sysfs - 1] = 0;
  memcpy(fds, reply.fds, 2 * sizeof *fds);
  return 0;
}

static int open_once(const char *path, tessera_hca_device *info, int *socket, int fds[2]) {
  const int connected = tsr_connect(path);
  if (connected < 0) {
    tsr_log("no HCA: %s: %s", path, strerror(-connected));
    return ENODEV;
  }
  const int error = open_on(connected, info, fds);
  if (error != 0 && error != EAGAIN)
    tsr_log("hcad does not open its HCA for this program: %s", strerror(error));
  if (error != 0)
    close(connected);
  else
    *socket = connected;
  return error;
}

int tsr_hca_open(const char *path, tessera_hca_device *info, int *socket, int fds[2]) {
  struct tsr_patience patience = {0};
  int error;
  do error = open_once(path, info, socket, fds);
  while (error == EAGAIN && tsr_patience_wait_for_function(&patience, path));
  return error;
}

void tsr_mark_lost(struct tsr_context *context) {
  if (!__atomic_exchange_n(&context->dead, true, __ATOMIC_RELAXED))
    tsr_log("hcad has gone: requests of this program end with WR_FLUSH_ERR");
}

static int receive(struct tsr_context *context, uint16_t type, uint32_t request, void *answer,
                   uint32_t answer_bytes, int *fd) {
  struct tsr_reply reply;
  uint16_t answered_type = 0;
  uint32_t answered = 0;
  if (tsr_receive(context->socket, &answered_type, &answered, &reply) !=
      TSR_RECEIVED) {
    tsr_mark_lost(context);
    return EIO;
  }
  int error = reply.status;
  const bool expected = answered_type == type + 1 && answered == request &&
                        reply.payload_bytes == (error ? 0 : answer_bytes) &&
                        (error || !fd || reply.fds[0] >= 0);
  if (!expected) {
    context->dead = true;
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

/* Descriptors reserved for a reply: if no descriptor number is free when a descriptor arrives,
 * that descriptor and its object are lost. */
struct places {
  int held[TSR_MAX_FDS];
  unsigned count;
};

static void leave(struct places *places) {
  while (places->count > 0) close(places->held[--places->count]);
}

/* Reserve descriptors; 0 or an errno value: a program at its descriptor limit sends no request. */
static int hold(struct places *places, int socket, unsigned count) {
  *places = (struct places){.count = 0};
  while (places->count < count) {
    const int held = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    if (held < 0) {
      const int error = errno;
      leave(places);
      return error;
    }
    places->held[places->count++] = held;
  }
  return 0;
}

int tsr_ask(struct tsr_context *context, uint16_t type, const void *payload, uint32_t bytes,
            void *answer, uint32_t answer_bytes, int *fd) {
  pthread_mutex_lock(&context->asking);
  const uint32_t request = ++context->next_request;
  struct places places;
  int error = context->dead ? EIO : hold(&places, context->socket, fd ? 1 : 0);
  if (error == 0) {
    if (!tsr_send(context->socket, type, request, payload, bytes, -1)) tsr_mark_lost(context);
    leave(&places);
    error = context->dead ? EIO : receive(context, type, request, answer, answer_bytes, fd);
  }
  pthread_mutex_unlock(&context->asking);
  return error;
}

static int take_part(const tessera_header *header, const uint8_t *payload, unsigned place,
                     struct tsr_part *part, struct tsr_reply *reply, unsigned *fds) {
  if (header->magic != TESSERA_MAGIC || header->type != part->type + 1 || header->request != place ||
      header->status < 0 || header->payload_bytes != (header->status ? 0 : part->answer_bytes))
    return EPROTO;
  part->error = header->status;
  if (part->error != 0) return 0;
  if (part->answer_bytes) memcpy(part->answer, payload, part->answer_bytes);
  if (!part->fd) return 0;
  if (*fds == TSR_MAX_FDS || reply->fds[*fds] < 0) return EPROTO;
  *part->fd = reply->fds[*fds];
  reply->fds[(*fds)++] = -1;
  return 0;
}

/* Parse the replies of a batch. EPROTO: they are malformed, and hcad is not trusted any more. */
static int take_parts(struct tsr_reply *reply, struct tsr_part *parts, unsigned count) {
  unsigned fds = 0, place = 0;
  for (uint32_t at = 0; at < reply->payload_bytes; place++) {
    tessera_header header;
    const uint32_t left = reply->payload_bytes - at;
    if (place == count || left < sizeof header) return EPROTO;
    memcpy(&header, reply->payload + at, sizeof header);
    if (header.payload_bytes > left - sizeof header) return EPROTO;
    at += sizeof header;
    if (take_part(&header, reply->payload + at, place, &parts[place], reply, &fds)) return EPROTO;
    at += header.payload_bytes;
  }
  /* Either every part has a reply, or the last reply is an error. */
  return place == count || (place > 0 && parts[place - 1].error != 0) ? 0 : EPROTO;
}

static int ask_batch(struct tsr_context *context, struct tsr_part *parts, unsigned count) {
  uint8_t body[1024] = {0}; /* gcc 14 does not see that there is a part */
  uint32_t bytes = 0;
  unsigned fds = 0;
  for (unsigned i = 0; i < count; i++) {
    const tessera_header header = {.magic = TESSERA_MAGIC,
                                   .version = TESSERA_PROTOCOL_VERSION,
                                   .type = parts[i].type,
                                   .request = i,
                                   .payload_bytes = parts[i].bytes};
    for (unsigned n = 0; n < 2; n++)
      if (parts[i].names[n].where)
        *parts[i].names[n].where = TESSERA_HCA_BATCH_MADE | parts[i].names[n].part;
    if (sizeof body - bytes < sizeof header + parts[i].bytes) return EINVAL;
    memcpy(body + bytes, &header, sizeof header);
    bytes += sizeof header;
    if (parts[i].bytes) memcpy(body + bytes, parts[i].payload, parts[i].bytes);
    bytes += parts[i].bytes;
    fds += parts[i].fd != NULL;
  }
  const int socket = context->socket;
  struct places places;
  const int full = hold(&places, socket, fds);
  if (full) return full;
  const uint32_t request = ++context->next_request;
  struct tsr_reply reply;
  uint16_t type = 0;
  uint32_t answered = 0;
  const bool sent = tsr_send(socket, TESSERA_HCA_MESSAGE_BATCH, request, body, bytes, -1);
  leave(&places);
  if (!sent || tsr_receive(socket, &type, &answered, &reply) != TSR_RECEIVED) return EIO;
  const bool expected =
      type == TESSERA_HCA_MESSAGE_BATCH + 1 && answered == request && reply.status == 0;
  const int error = expected ? take_parts(&reply, parts, count) : EPROTO;
  tsr_reply_close(&reply);
  return error;
}

static int ask_in_turn(struct tsr_context *context, struct tsr_part *parts, unsigned count) {
  int error = 0;
  for (struct tsr_part *part = parts; part < parts + count && error == 0; part++) {
    for (unsigned n = 0; n < 2; n++)
      if (part->names[n].where)
        memcpy(part->names[n].where, parts[part->names[n].part].answer, sizeof(uint32_t));
    error = part->error = tsr_ask(context, part->type, part->payload, part->bytes, part->answer,
                                  part->answer_bytes, part->fd);
  }
  return error;
}

int tsr_ask_all(struct tsr_context *context, struct tsr_part *parts, unsigned count) {
  for (unsigned i = 0; i < count; i++) parts[i].error = ECANCELED;
  if (!(context->device.info.features & TESSERA_HCA_FEATURE_BATCHES))
    return ask_in_turn(context, parts, count);
  pthread_mutex_lock(&context->asking);
  int error = context->dead ? EIO : ask_batch(context, parts, count);
  if (error == EIO) tsr_mark_lost(context);
  if (error == EPROTO) context->dead = true;
  pthread_mutex_unlock(&context->asking);
  for (unsigned i = 0; i < count && error == 0; i++) error = parts[i].error;
  return error;
}

int tsr_ask_handle(struct tsr_context *context, uint16_t type, uint32_t handle) {
  const tessera_hca_handle wanted = {.handle = handle};
  const int error = tsr_ask(context, type, &wanted, sizeof wanted, NULL, 0, NULL);
  return context->dead ? 0 : error; /* with hcad its objects have gone */
}

bool tsr_is_dead(struct tsr_context *context) {
  if (context->dead) return true;
  /* another thread waits for a reply */
  if (pthread_mutex_trylock(&context->asking) != 0) return false;
  char byte;
  if (recv(context->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) tsr_mark_lost(context);
  pthread_mutex_unlock(&context->asking);
  return context->dead;
}

void *tsr_map_at(void *address, int fd, uint64_t bytes) {
  const int flags = MAP_SHARED | MAP_POPULATE | (address ? MAP_FIXED : 0);
  void *memory = mmap(address, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  const int error = errno;
  close(fd);
  errno = error;
  return memory == MAP_FAILED ? NULL : memory;
}

void *tsr_map(int fd, uint64_t bytes) { return tsr_map_at(NULL, fd, bytes); }
