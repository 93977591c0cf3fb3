/* Local addresses with their sockets (wires), and the queue pairs connected over them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/wire.h"
#include "packets/crc.h"

enum {
  ROOM_BYTES = 32 * 65536,
  EVENTS = 4, /* per epoll_wait(); the kernel rotates the ready list, so no port starves */
};

static bool open_engine(struct hca *hca) {
  if (hca->wire_batch) return true;
  hca_crc_choose();
  hca->wire_batch = calloc(1, sizeof *hca->wire_batch);
  hca->wire_room = malloc(ROOM_BYTES);
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = HCA_RANG_WIRE};
  if (hca->wire_batch && hca->wire_room && fd >= 0 &&
      epoll_ctl(hca->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) {
    hca->wire_epoll_fd = fd;
    return true;
  }
  if (fd >= 0) close(fd);
  free(hca->wire_room);
  free(hca->wire_batch);
  hca->wire_room = NULL;
  hca->wire_batch = NULL;
  return false;
}

void hca_wire_end(struct hca *hca) {
  free(hca->pacing);
  if (!hca->wire_batch) return;
  close(hca->wire_epoll_fd);
  free(hca->wire_room);
  free(hca->wire_batch);
}

static void drop(struct hca_wire *wire) {
  wire_sources_end(wire);
  wire_groups_end(wire);
  if (wire->mad_fd >= 0) close(wire->mad_fd);
  for (unsigned i = 0; i < wire->lanes; i++) close(wire->fds[i]);
  free(wire);
}

struct hca_wire *hca_wire_new(struct hca *hca, const tessera_hca_wire *wanted) {
  struct hca_wire *wire = calloc(1, sizeof *wire);
  if (!wire || wanted->lanes == 0 || wanted->lanes > WIRE_LANES) {
    free(wire);
    errno = wire ? EINVAL : ENOMEM;
    return NULL;
  }
  memcpy(wire->gid, wanted->gid, sizeof wire->gid);
  wire->scope = wanted->scope;
  wire->mad_fd = -1;
  wire->segments = wanted->segments != 0;
  wire->mtu = 128u << wanted->path_mtu % 6;
  wire->port = hca_bucket_of(wanted->bytes_per_second);
  bool made = true;
  for (; wire->lanes < wanted->lanes && made; wire->lanes += made) {
    wire->ports[wire->lanes] = wanted->ports[wire->lanes];
    wire->fds[wire->lanes] = fcntl(wanted->fds[wire->lanes], F_DUPFD_CLOEXEC, 3);
    made = wire->fds[wire->lanes] >= 0;
  }
  int room_bytes = 0;
  socklen_t length = sizeof room_bytes;
  made = made && getsockopt(wire->fds[0], SOL_SOCKET, SO_RCVBUF, &room_bytes, &length) == 0;
  wire->room_bytes = (uint32_t)room_bytes;
  wire->own = (struct wire_port){wire, wire->fds[0], wire->gid, 0};
  hca_enter(hca);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = &wire->own};
  made = made && open_engine(hca) &&
         epoll_ctl(hca->wire_epoll_fd, EPOLL_CTL_ADD, wire->fds[0], &event) == 0;
  if (made) {
    wire->next = hca->wires;
    hca->wires = wire;
  }
  const int error = errno;
  hca_leave(hca);
  if (made) return wire;
  drop(wire);
  errno = error;
  return NULL;
}

static void link_pair(struct hca_wire *wire, struct hca_wired *wired) {
  wired->wire = wire;
  wired->previous_pair = NULL;
  wired->next_pair = wire->first_pair;
  if (wire->first_pair) wire->first_pair->previous_pair = wired;
  wire->first_pair = wired;
  wire->pairs++;
}

static void unlink_pair(struct hca_wired *wired) {
  struct hca_wired *next = wired->next_pair, *previous = wired->previous_pair;
  *(previous ? &previous->next_pair : &wired->wire->first_pair) = next;
  if (next) next->previous_pair = previous;
  wired->wire->pairs--;
}

static void leave(struct hca *hca, struct hca_qp *qp) {
  if (!qp->wired) return;
  /* it may have been loaded and not have had a turn yet */
  struct hca_wired **link = qp->wired->responder.noted ? &hca->wire_noted : NULL;
  for (; link && *link; link = &(*link)->next_noted) {
    if (*link != qp->wired) continue;
    *link = qp->wired->next_noted;
    break;
  }
  unlink_pair(qp->wired);
  hca_wire_stop(hca, qp);
  free(qp->wired);
  qp->wired = NULL;
}

/* Fail some of the queue pairs connected over a wire; false where more are left. */
static bool end_pairs(struct hca *hca, struct hca_wire *wire) {
  enum { AT_ONCE = 64 }; /* limits the time for which the lock is held */
  for (unsigned i = 0; wire->first_pair && i < AT_ONCE; i++) {
    struct hca_qp *qp = wire->first_pair->qp;
    if (qp->attributes.state != TESSERA_VERBS_STATE_ERR) {
      hca_event(qp->client, TESSERA_VERBS_EVENT_QP_FATAL, qp->number);
      hca_fail(hca, qp);
    }
    leave(hca, qp);
  }
  return wire->first_pair == NULL;
}

void hca_wire_free(struct hca *hca, struct hca_wire *wire) {
  hca_enter(hca);
  for (struct hca_wire **link = &hca->wires; *link; link = &(*link)->next) {
    if (*link != wire) continue;
    *link = wire->next;
    break;
  }
  while (!end_pairs(hca, wire)) { /* no queue pair connects over it any more */
    hca_leave(hca);
    hca_enter(hca);
  }
  epoll_ctl(hca->wire_epoll_fd, EPOLL_CTL_DEL, wire->fds[0], NULL);
  for (const struct wire_group *group = wire->groups; group; group = group->next)
    epoll_ctl(hca->wire_epoll_fd, EPOLL_CTL_DEL, group->port.fd, NULL);
  hca_leave(hca);
  drop(wire);
}

void hca_wire_counts(struct hca *hca, struct hca_wire *wire, tessera_hca_wire_counts *counts) {
  hca_enter(hca);
  *counts = wire->counts;
  hca_leave(hca);
}

/* Set the path of a connection: from now on packets go to the queue pair's address over `wire`. */
static void aim(struct hca_wire *wire, struct hca_qp *qp) {
  const tessera_hca_qp_attributes *attributes = &qp->attributes;
  struct hca_wired *wired = qp->wired;
  if (wired->wire) unlink_pair(wired);
  link_pair(wire, wired);
  wired->lane = wire_lane_of(wire, attributes->flow_label, qp->number, attributes->dest_qpn);
  wired->path = (struct wire_path){.source_port = wire->ports[wired->lane],
                                   .destination_port = WIRE_PORT};
  memcpy(wired->path.source, wire->gid, sizeof wire->gid);
  memcpy(wired->path.destination, attributes->dgid, sizeof attributes->dgid);
}

bool wire_join(struct hca_wire *wire, struct hca_qp *qp) {
  qp->wired = calloc(1, sizeof *qp->wired);
  if (!qp->wired) return false;
  qp->wired->qp = qp;
  qp->wired->mtu = 128u << qp->attributes.path_mtu;
  aim(wire, qp);
  wire_responder_begin(qp);
  return true;
}

/* Find the wire to a queue pair's peer; NULL where the peer is not reached over a wire. */
static struct hca_wire *towards_peer(const struct hca *hca, const struct hca_qp *qp) {
  if (qp->type != TESSERA_VERBS_QP_TYPE_RC && qp->type != TESSERA_VERBS_QP_TYPE_UC) return NULL;
  return hca_wire_towards(hca, qp->client, qp->attributes.sgid_index, qp->attributes.dgid);
}

static bool has_same_ends(const tessera_hca_qp_attributes *one,
                          const tessera_hca_qp_attributes *other) {
  return one->sgid_index == other->sgid_index &&
         memcmp(one->dgid, other->dgid, sizeof one->dgid) == 0;
}

/* Apply an address change in SQD, where none of the queue pair's own requests is in flight. The
 * PSNs continue; if the connection moves off the wire, they are written to the attributes.
 * False: no memory. */
static bool follow(struct hca *hca, struct hca_qp *qp, const tessera_hca_qp_attributes *before) {
  const bool same = has_same_ends(&qp->attributes, before);
  struct hca_wire *wire = same && qp->wired ? qp->wired->wire : towards_peer(hca, qp);
  if (qp->wired && wire) {
    aim(wire, qp);
    if (!same) wire_responder_go_on(qp);
    return true;
  }
  if (same) return true;
  if (qp->wired) {
    qp->attributes.sq_psn = qp->wired->requester.free_psn;
    qp->attributes.rq_psn = qp->wired->responder.psn;
    leave(hca, qp);
    return true;
  }
  if (!wire) return true;
  if (!wire_join(wire, qp)) return false;
  wire_requester_begin(qp);
  return true;
}

bool hca_wire_set(struct hca *hca, struct hca_qp *qp, const tessera_hca_qp_attributes *before) {
  const uint32_t from = before->state, state = qp->attributes.state;
  if (state == TESSERA_VERBS_STATE_RESET) leave(hca, qp);
  if (state == TESSERA_VERBS_STATE_RTR && from != TESSERA_VERBS_STATE_RTR) {
    leave(hca, qp);
    struct hca_wire *wire = towards_peer(hca, qp);
    return !wire || wire_join(wire, qp);
  }
  if (state == TESSERA_VERBS_STATE_SQD && from == TESSERA_VERBS_STATE_SQD)
    return follow(hca, qp, before);
  if (qp->wired && state == TESSERA_VERBS_STATE_RTS && from == TESSERA_VERBS_STATE_RTR)
    wire_requester_begin(qp);
  return true;
}

void hca_wire_leave(struct hca *hca, struct hca_qp *qp) { leave(hca, qp); }

bool hca_wire_is_busy(const struct hca_qp *qp) {
  return qp->wired && qp->wired->requester.tail != qp->wired->requester.head;
}

bool hca_wire_turn(struct hca *hca, struct hca_qp *qp) {
  wire_pace_begin(qp);
  bool more = wire_answer_reads(hca, qp);
  wire_answer(hca, qp);
  wire_flush(hca);
  const uint32_t state = qp->attributes.state;
  if (state == TESSERA_VERBS_STATE_RTS || state == TESSERA_VERBS_STATE_SQD)
    more |= wire_request(hca, qp);
  else
    hca_wait_end(hca, qp); /* in RTR it only waits for its rate, which wire_pace_end() checks */
  /* A queue pair that has failed meanwhile only has completions to flush. */
  if (qp->attributes.state > TESSERA_VERBS_STATE_SQD) return true;
  return wire_pace_end(hca, qp, more);
}

/* Received packets are charged to the function: while its credit is negative, it must have turns
 * that earn credit first. */
static bool receive(struct hca *hca, struct wire_port *port) {
  struct hca_function *function = hca_function_of(hca, port->wire->gid);
  if (function->credit < 0) return false;
  hca->charged = function;
  const bool came = wire_receive(hca, port);
  hca->charged = NULL;
  if (function->credit < 0) hca_make_ready(hca, function);
  return came;
}

bool hca_wire_poll(struct hca *hca) {
  if (!hca->wires) return false;
  wire_take_evaluated(hca);
  struct epoll_event events[EVENTS];
  const int count = epoll_wait(hca->wire_epoll_fd, events, EVENTS, 0);
  bool came = false;
  for (int i = 0; i < count; i++) came |= receive(hca, events[i].data.ptr);
  while (hca->wire_noted) {
    came = true;
    struct hca_wired *wired = hca->wire_noted;
    hca->wire_noted = wired->next_noted;
    wired->responder.noted = false;
    wire_answer(hca, wired->qp);
  }
  if (came) wire_flush(hca);
  return came;
}
