/* The process of ncclGetUniqueId is the root of a new communicator: it accepts one connection from each rank,
 * and sends the addresses of all to each. Then each rank connects to the ranks below it. The id contains a
 * secret, which both ends of all connections prove to have. A socket listens until the last rank has come. */
#define _GNU_SOURCE
#include "connections/bootstrap.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "background.h"
#include "clock.h"
#include "log.h"
#include "connections/secrets.h"
#include "connections/visitors.h"

#define PATIENCE_NS UINT64_C(600000000000)
#define MAGIC UINT64_C(0x314c43434e525354)

enum { MAX_RANKS = 4096 };

struct invitation { /* an ncclUniqueId's bytes */
  uint64_t magic;
  uint8_t secret[TSR_SECRET_BYTES];
  struct tsr_address root;
};
_Static_assert(sizeof(struct invitation) <= sizeof(ncclUniqueId), "it must fit");

struct member { /* what the root sends about each rank */
  struct tsr_address address;
  struct tsr_place place;
};

struct answer { /* of the root; the members follow a success */
  uint32_t result, ranks;
};

struct root {
  struct tsr_visitors visitors;
  uint8_t secret[TSR_SECRET_BYTES];
  struct tsr_channel channels[MAX_RANKS]; /* by rank */
  struct member members[MAX_RANKS];
};

static const volatile bool NEVER;

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

static void answer_all(struct root *root, uint32_t ranks) {
  const struct answer answer = {.result = ncclSuccess, .ranks = ranks};
  for (uint32_t rank = 0; rank < ranks; rank++) {
    struct tsr_channel *const channel = &root->channels[rank];
    if (tsr_channel_send(channel, &answer, sizeof answer, &NEVER) == ncclSuccess)
      tsr_channel_send(channel, root->members, ranks * sizeof *root->members, &NEVER);
  }
}

/* Accept ranks until all have connected. Returns their number, or 0 after a greeting of no ranks, which ends the root. */
static uint32_t gather(struct root *root) {
  const struct tsr_expectation expectation = {.secret = root->secret, .acceptor = TSR_ACCEPTOR_ROOT};
  struct tsr_greeting greeting;
  struct tsr_channel channel;
  uint32_t ranks = 0;
  for (uint32_t connected = 0; ranks == 0 || connected < ranks;) {
    if (!tsr_visitors_next(&root->visitors, &expectation, &greeting, &channel, UINT64_MAX, &NEVER)) continue;
    if (greeting.ranks == 0) {
      tsr_visitors_end(&root->visitors); /* before the greeter sees the end of its connection */
      tsr_channel_close(&channel);
      return 0;
    }
    const bool fits = greeting.ranks >= 1 && greeting.ranks <= MAX_RANKS && greeting.rank < greeting.ranks &&
                      (ranks == 0 || greeting.ranks == ranks) && root->channels[greeting.rank].fd < 0;
    if (!fits) {
      const struct answer refusal = {.result = ncclInvalidUsage};
      tsr_channel_send(&channel, &refusal, sizeof refusal, &NEVER);
      tsr_channel_close(&channel);
      continue;
    }
    ranks = greeting.ranks;
    root->channels[greeting.rank] = channel;
    root->members[greeting.rank] = (struct member){.address = greeting.address, .place = greeting.place};
    connected++;
  }
  return ranks;
}

static void free_root(struct root *root) {
  tsr_visitors_end(&root->visitors);
  for (int i = 0; i < MAX_RANKS; i++) tsr_channel_close(&root->channels[i]);
  tsr_wipe(root, sizeof *root);
  free(root);
}

static void *serve_root(void *argument) {
  struct root *root = argument;
  const uint32_t ranks = gather(root);
  tsr_visitors_end(&root->visitors);
  answer_all(root, ranks);
  free_root(root);
  return NULL;
}

static void derive_secret(uint8_t *secret, const struct tsr_mesh *parent) {
  uint8_t derived[TSR_SHA256_BYTES];
  tsr_derive(derived, parent->split_key, sizeof parent->split_key, "tessera nccl split", secret, TSR_SECRET_BYTES);
  memcpy(secret, derived, TSR_SECRET_BYTES);
  tsr_wipe(derived, sizeof derived);
}

void tsr_bootstrap_reveal(ncclUniqueId *id, const struct tsr_mesh *parent) {
  derive_secret((uint8_t *)id->internal + offsetof(struct invitation, secret), parent);
}

ncclResult_t tsr_bootstrap_begin(ncclUniqueId *id, const struct tsr_mesh *parent) {
  struct invitation invitation = {.magic = MAGIC};
  struct root *root = calloc(1, sizeof *root);
  if (!root) return ncclSystemError;
  root->visitors.listener = -1;
  for (int i = 0; i < MAX_RANKS; i++) root->channels[i].fd = -1;
  if (tsr_fill_random(invitation.secret, sizeof invitation.secret))
    root->visitors.listener = tsr_listen(&invitation.root);
  memcpy(root->secret, invitation.secret, sizeof root->secret);
  if (parent) derive_secret(root->secret, parent);
  memset(id, 0, sizeof *id);
  if (root->visitors.listener < 0 || !tsr_background_start(serve_root, root, NULL)) {
    tsr_log("ncclGetUniqueId cannot listen on an interface that NCCL_SOCKET_IFNAME permits");
    free_root(root);
    return ncclSystemError;
  }
  memcpy(id->internal, &invitation, sizeof invitation);
  tsr_wipe(&invitation, sizeof invitation);
  return ncclSuccess;
}

void tsr_bootstrap_end(const ncclUniqueId *id) {
  struct invitation invitation;
  struct tsr_greeting greeting = {.acceptor = TSR_ACCEPTOR_ROOT};
  struct tsr_channel channel = {.fd = -1};
  struct answer none;
  memcpy(&invitation, id->internal, sizeof invitation);
  if (invitation.magic == MAGIC &&
      !tsr_handshake_connect(&invitation.root, &greeting, invitation.secret, &NEVER, &channel))
    tsr_channel_receive(&channel, &none, sizeof none, &NEVER);
  tsr_channel_close(&channel);
  tsr_wipe(&invitation, sizeof invitation);
}

/* Greet the root, and receive where all ranks are. */
static ncclResult_t greet_root(struct tsr_mesh *mesh, const struct invitation *invitation,
                               const struct member *own, struct member *all) {
  struct tsr_greeting greeting = {.acceptor = TSR_ACCEPTOR_ROOT, .rank = (uint32_t)mesh->rank,
                                  .ranks = (uint32_t)mesh->ranks, .address = own->address, .place = own->place};
  struct tsr_channel channel = {.fd = -1};
  struct answer answer;
  const char *reason =
      tsr_handshake_connect(&invitation->root, &greeting, invitation->secret, &mesh->aborted, &channel);
  if (reason) {
    tsr_log("rank %d of an NCCL communicator cannot connect to the process that made its id: %s", mesh->rank, reason);
    return ncclSystemError;
  }
  ncclResult_t result = tsr_channel_receive(&channel, &answer, sizeof answer, &mesh->aborted);
  if (result == ncclSuccess) result = (ncclResult_t)answer.result;
  if (result == ncclSuccess)
    result = answer.ranks == greeting.ranks
                 ? tsr_channel_receive(&channel, all, greeting.ranks * sizeof *all, &mesh->aborted)
                 : ncclRemoteError;
  if (channel.is_forged)
    tsr_log("rank %d of an NCCL communicator: what the process that made its id sent has a wrong tag", mesh->rank);
  if (result == ncclInvalidUsage)
    tsr_log("rank %d of %d of an NCCL communicator: another process has this rank, or gave another number of"
            " ranks", mesh->rank, mesh->ranks);
  tsr_channel_close(&channel);
  return result;
}

/* All ranks find the same pair, so none waits for others that give up. */
static ncclResult_t refuse_duplicates(const struct member *all, uint32_t ranks) {
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

static ncclResult_t connect_to_lower(struct tsr_mesh *mesh, const uint8_t *secret, const struct member *all) {
  for (int peer = 0; peer < mesh->rank; peer++) {
    struct tsr_greeting greeting = {.acceptor = TSR_ACCEPTOR_RANK, .acceptor_rank = (uint32_t)peer,
                                    .rank = (uint32_t)mesh->rank, .ranks = (uint32_t)mesh->ranks};
    const char *reason =
        tsr_handshake_connect(&all[peer].address, &greeting, secret, &mesh->aborted, &mesh->channels[peer]);
    if (!reason) continue;
    tsr_log("rank %d of an NCCL communicator cannot connect to rank %d: %s", mesh->rank, peer, reason);
    return ncclSystemError;
  }
  return ncclSuccess;
}

static ncclResult_t accept_higher(struct tsr_mesh *mesh, const uint8_t *secret, struct tsr_visitors *visitors) {
  const struct tsr_expectation expectation = {.secret = secret, .acceptor = TSR_ACCEPTOR_RANK,
                                              .acceptor_rank = (uint32_t)mesh->rank};
  const uint64_t deadline_ns = tsr_now_ns() + PATIENCE_NS;
  for (int missing = mesh->ranks - 1 - mesh->rank; missing > 0;) {
    struct tsr_greeting greeting;
    struct tsr_channel channel;
    if (!tsr_visitors_next(visitors, &expectation, &greeting, &channel, deadline_ns, &mesh->aborted))
      return ncclSystemError;
    const bool fits = greeting.ranks == (uint32_t)mesh->ranks && greeting.rank > (uint32_t)mesh->rank &&
                      greeting.rank < greeting.ranks && mesh->channels[greeting.rank].fd < 0;
    if (fits) {
      mesh->channels[greeting.rank] = channel;
      missing--;
    } else {
      tsr_channel_close(&channel);
    }
  }
  return ncclSuccess;
}

static ncclResult_t join(struct tsr_mesh *mesh, const struct invitation *invitation, struct member *own,
                         struct member *all, struct tsr_visitors *visitors) {
  /* No rank connects to the last one. */
  const bool listens = mesh->rank < mesh->ranks - 1;
  if (listens && (visitors->listener = tsr_listen(&own->address)) < 0) return ncclSystemError;
  ncclResult_t result = greet_root(mesh, invitation, own, all);
  if (result == ncclSuccess) result = refuse_duplicates(all, (uint32_t)mesh->ranks);
  if (result == ncclSuccess) result = connect_to_lower(mesh, invitation->secret, all);
  return result == ncclSuccess && listens ? accept_higher(mesh, invitation->secret, visitors) : result;
}

ncclResult_t tsr_bootstrap_join(struct tsr_mesh *mesh, const ncclUniqueId *id, const struct tsr_place *place) {
  struct invitation invitation;
  memcpy(&invitation, id->internal, sizeof invitation);
  if (invitation.magic != MAGIC || mesh->ranks > MAX_RANKS) return ncclInvalidArgument;
  struct member own = {.place = *place}, *all = calloc((size_t)mesh->ranks, sizeof *all);
  struct tsr_visitors *visitors = calloc(1, sizeof *visitors);
  ncclResult_t result = ncclSystemError;
  if (all && visitors && tsr_mesh_prepare(mesh)) {
    visitors->listener = -1;
    tsr_derive(mesh->split_key, invitation.secret, sizeof invitation.secret, "tessera nccl family", NULL, 0);
    result = join(mesh, &invitation, &own, all, visitors);
    tsr_visitors_end(visitors);
  }
  free(all);
  free(visitors);
  tsr_wipe(&invitation, sizeof invitation);
  if (result != ncclSuccess) tsr_mesh_close(mesh);
  return result;
}
