/* The process of ncclGetUniqueId is the root of a new communicator: it accepts one connection from each rank,
 * and sends the addresses of all to each. Then each rank connects to the ranks below it. The id contains a
 * secret, with which all connections begin. */
#define _GNU_SOURCE
#include "connections/bootstrap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "connections/addresses.h"
#include "background.h"
#include "clock.h"
#include "log.h"
#include "connections/visitors.h"

#define PATIENCE_NS UINT64_C(600000000000)
#define MAGIC UINT64_C(0x314c43434e525354) /* in ids and on connections */

enum { MAX_RANKS = 4096 };

struct invitation { /* an ncclUniqueId's bytes */
  uint64_t magic;
  uint8_t secret[TSR_SECRET_BYTES];
  struct tsr_address root;
};
_Static_assert(sizeof(struct invitation) <= sizeof(ncclUniqueId), "it must fit");

struct greeting { /* of a rank, for the root */
  uint8_t secret[TSR_SECRET_BYTES];
  uint32_t rank, ranks;
  struct tsr_address address;
  struct tsr_place place;
};
_Static_assert(sizeof(struct greeting) <= TSR_MAX_GREETING, "it must fit");

struct answer { /* of the root; the ranks' greetings follow a success */
  uint64_t magic;
  uint32_t result, ranks;
};

struct call { /* of a rank, for another one */
  uint8_t secret[TSR_SECRET_BYTES];
  uint32_t rank, unused;
};

struct root {
  struct tsr_visitors visitors;
  uint8_t secret[TSR_SECRET_BYTES];
};

static const volatile bool NEVER;

static bool fill_random(void *bytes, size_t size) {
  /* The system call, because glibc has getrandom() only since 2.25. */
  return syscall(SYS_getrandom, bytes, size, 0) == (long)size;
}

uint64_t tsr_host_number(void) {
  char text[512] = "";
  uint64_t number = UINT64_C(0xcbf29ce484222325);
  gethostname(text, sizeof text / 2);
  const size_t length = strnlen(text, sizeof text / 2);
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  const ssize_t more = fd < 0 ? 0 : read(fd, text + length, sizeof text / 2);
  if (fd >= 0) close(fd);
  for (size_t i = 0; i < length + (size_t)(more > 0 ? more : 0); i++)
    number = (number ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
  return number;
}

static void answer_all(const int *sockets, const struct greeting *greetings, uint32_t ranks) {
  const struct answer answer = {.magic = MAGIC, .result = ncclSuccess, .ranks = ranks};
  for (uint32_t rank = 0; rank < ranks; rank++) {
    if (tsr_send_all(sockets[rank], &answer, sizeof answer))
      tsr_send_all(sockets[rank], greetings, ranks * sizeof *greetings);
  }
}

/* Accept ranks until all have connected. */
static void gather(struct root *root, int *sockets, struct greeting *greetings, uint32_t *ranks) {
  struct greeting greeting;
  for (uint32_t connected = 0; *ranks == 0 || connected < *ranks;) {
    const int fd =
        tsr_visitors_next(&root->visitors, root->secret, &greeting, sizeof greeting, UINT64_MAX, &NEVER);
    if (fd < 0) continue;
    const bool fits = greeting.ranks >= 1 && greeting.ranks <= MAX_RANKS && greeting.rank < greeting.ranks &&
                      (*ranks == 0 || greeting.ranks == *ranks) && sockets[greeting.rank] < 0;
    if (!fits) {
      const struct answer refusal = {.magic = MAGIC, .result = ncclInvalidUsage};
      tsr_send_all(fd, &refusal, sizeof refusal);
      close(fd);
      continue;
    }
    *ranks = greeting.ranks;
    sockets[greeting.rank] = fd;
    greetings[greeting.rank] = greeting;
    connected++;
  }
}

static void *serve_root(void *argument) {
  struct root *root = argument;
  int *sockets = malloc(MAX_RANKS * sizeof *sockets);
  struct greeting *greetings = calloc(MAX_RANKS, sizeof *greetings);
  uint32_t ranks = 0;
  if (sockets && greetings) {
    for (int i = 0; i < MAX_RANKS; i++) sockets[i] = -1;
    gather(root, sockets, greetings, &ranks);
    answer_all(sockets, greetings, ranks);
    for (uint32_t i = 0; i < ranks; i++) close(sockets[i]);
  }
  free(sockets);
  free(greetings);
  tsr_visitors_end(&root->visitors);
  free(root);
  return NULL;
}

ncclResult_t tsr_bootstrap_begin(ncclUniqueId *id) {
  struct invitation invitation = {.magic = MAGIC};
  struct root *root = calloc(1, sizeof *root);
  if (!root) return ncclSystemError;
  root->visitors.listener = -1;
  if (fill_random(invitation.secret, sizeof invitation.secret))
    root->visitors.listener = tsr_listen(&invitation.root);
  memcpy(root->secret, invitation.secret, sizeof root->secret);
  if (root->visitors.listener < 0 || !tsr_background_start(serve_root, root, NULL)) {
    tsr_log("ncclGetUniqueId cannot listen on an interface that NCCL_SOCKET_IFNAME permits");
    if (root->visitors.listener >= 0) close(root->visitors.listener);
    free(root);
    return ncclSystemError;
  }
  memset(id, 0, sizeof *id);
  memcpy(id->internal, &invitation, sizeof invitation);
  return ncclSuccess;
}

/* Send a rank's greeting to the root and receive those of all ranks. */
static ncclResult_t greet_root(const struct invitation *invitation, const struct greeting *mine,
                               struct greeting *all) {
  struct answer answer;
  const int fd = tsr_connect(&invitation->root);
  if (fd < 0) {
    tsr_log("rank %u of an NCCL communicator cannot connect to the process that made its id", mine->rank);
    return ncclSystemError;
  }
  ncclResult_t result = ncclRemoteError;
  if (tsr_send_all(fd, mine, sizeof *mine) && tsr_receive_all(fd, &answer, sizeof answer) &&
      answer.magic == MAGIC) {
    result = (ncclResult_t)answer.result;
    if (result == ncclSuccess &&
        (answer.ranks != mine->ranks || !tsr_receive_all(fd, all, mine->ranks * sizeof *all)))
      result = ncclRemoteError;
  }
  close(fd);
  if (result == ncclInvalidUsage)
    tsr_log("rank %u of %u of an NCCL communicator: another process has this rank, or gave another number of"
            " ranks", mine->rank, mine->ranks);
  return result;
}

/* All ranks find the same pair, so none waits for others that give up. */
static ncclResult_t refuse_duplicates(const struct greeting *all, uint32_t ranks) {
  for (uint32_t one = 0; one < ranks; one++) {
    for (uint32_t other = one + 1; other < ranks; other++) {
      if (all[one].place.host != all[other].place.host) continue;
      if (memcmp(all[one].place.uuid, all[other].place.uuid, TSR_UUID_BYTES) != 0) continue;
      tsr_log("duplicate GPU detected: ranks %u and %u of an NCCL communicator are on the same CUDA device",
              one, other);
      return ncclInvalidUsage;
    }
  }
  return ncclSuccess;
}

/* Connect to the lower ranks, and accept the higher ones. */
static ncclResult_t connect_all(struct tsr_mesh *mesh, struct tsr_visitors *visitors,
                                const struct greeting *all) {
  const uint32_t rank = (uint32_t)mesh->rank;
  struct call call = {.rank = rank};
  memcpy(call.secret, all[rank].secret, sizeof call.secret);
  for (uint32_t peer = 0; peer < rank; peer++) {
    mesh->sockets[peer] = tsr_connect(&all[peer].address);
    if (mesh->sockets[peer] < 0 || !tsr_send_all(mesh->sockets[peer], &call, sizeof call)) {
      tsr_log("rank %u of an NCCL communicator cannot connect to rank %u", rank, peer);
      return ncclSystemError;
    }
  }
  const uint64_t deadline_ns = tsr_now_ns() + PATIENCE_NS;
  for (int missing = mesh->ranks - 1 - mesh->rank; missing > 0;) {
    const int fd = tsr_visitors_next(visitors, call.secret, &call, sizeof call, deadline_ns, &mesh->aborted);
    if (fd < 0) return ncclSystemError;
    if (call.rank > rank && call.rank < (uint32_t)mesh->ranks && mesh->sockets[call.rank] < 0) {
      mesh->sockets[call.rank] = fd;
      missing--;
    } else {
      close(fd);
    }
  }
  return ncclSuccess;
}

static ncclResult_t join(struct tsr_mesh *mesh, const struct invitation *invitation, struct greeting *mine,
                         struct greeting *all, struct tsr_visitors *visitors) {
  ncclResult_t result = greet_root(invitation, mine, all);
  if (result == ncclSuccess) result = refuse_duplicates(all, mine->ranks);
  return result == ncclSuccess ? connect_all(mesh, visitors, all) : result;
}

ncclResult_t tsr_bootstrap_join(struct tsr_mesh *mesh, const ncclUniqueId *id, const struct tsr_place *place) {
  struct invitation invitation;
  memcpy(&invitation, id->internal, sizeof invitation);
  if (invitation.magic != MAGIC || mesh->ranks > MAX_RANKS) return ncclInvalidArgument;
  struct greeting mine = {.rank = (uint32_t)mesh->rank, .ranks = (uint32_t)mesh->ranks, .place = *place};
  memcpy(mine.secret, invitation.secret, sizeof mine.secret);
  struct greeting *all = calloc((size_t)mesh->ranks, sizeof *all);
  struct tsr_visitors *visitors = calloc(1, sizeof *visitors);
  mesh->sockets = malloc((size_t)mesh->ranks * sizeof *mesh->sockets);
  ncclResult_t result = ncclSystemError;
  if (all && visitors && mesh->sockets) {
    for (int i = 0; i < mesh->ranks; i++) mesh->sockets[i] = -1;
    visitors->listener = tsr_listen(&mine.address);
    if (visitors->listener >= 0) {
      result = join(mesh, &invitation, &mine, all, visitors);
      tsr_visitors_end(visitors);
    }
  }
  free(all);
  free(visitors);
  if (result != ncclSuccess) tsr_mesh_close(mesh);
  return result;
}
