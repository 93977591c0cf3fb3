/* The wire: queue pairs whose peers are served by another engine, and the UDP sockets that lead
 * there.
 *
 * The engine's lock is held throughout. The content of packets is untrusted. */
#ifndef HCA_WIRE_H
#define HCA_WIRE_H

#include "base/internal.h"
#include "wire/pace.h"
#include "packets/packet.h"

enum {
  WIRE_LANES = TESSERA_HCA_WIRE_LANES, /* sockets of an address, each with its own port */
  WIRE_BATCH = 64,   /* packets that are made, sent or received at a time */
  WIRE_REQUESTS = 64, /* of a queue pair, in flight */
  WIRE_READS = TESSERA_HCA_WIRE_READS, /* READs and atomics in flight: responder resources */
  WIRE_LEAST_ROOM = 8, /* bounds of the number of packets that a queue pair has in flight */
  WIRE_MOST_ROOM = 1024,
  WIRE_FAIR_ROOM = 256, /* always allowed, however many queue pairs share the wire */
  WIRE_SOURCE_LISTS = 64,
  WIRE_PACKET_COST = 1280, /* overhead per packet in a socket's buffer, whose size Linux doubles */
};

/* A receiving socket: that of a local address, or of a group that it has joined. */
struct wire_port {
  struct hca_wire *wire;
  int fd;
  const uint8_t *destination; /* GID to which all its packets are addressed */
  unsigned at_once;           /* how many messages to receive next: fewer after long ones */
};

struct wire_group {
  struct wire_group *next;
  struct wire_port port;
  uint8_t gid[16];
};

/* A local address with its sockets. */
struct hca_wire {
  struct hca_wire *next;
  struct wire_port own;
  struct wire_group *groups;
  uint8_t gid[16];
  uint32_t scope; /* scope id of a link-local address */
  unsigned lanes;
  int fds[WIRE_LANES]; /* the first one receives */
  uint16_t ports[WIRE_LANES];
  uint32_t room_bytes; /* receive buffer; the peer's is assumed to have the same size */
  unsigned pairs;      /* number of queue pairs connected over it */
  struct hca_wired *first_pair;
  bool segments; /* the kernel segments and coalesces packets: UDP_SEGMENT, UDP_GRO */
  uint32_t mtu;  /* of the interface: the longest datagram */
  int mad_fd;    /* pipe to hcad; -1: none */
  uint32_t mad_psn;
  tessera_hca_wire_counts counts;
  struct wire_source *sources[WIRE_SOURCE_LISTS]; /* senders with a verdict, by hash */
  /* datagrams of senders without one, oldest first */
  struct wire_held *held;
  unsigned held_count;
  struct hca_wired *datagrams; /* connection that describes the path of the datagram being sent */
  struct hca_bucket port; /* rate limit of everything sent; a rate of 0: no limit */
  struct hca_bucket ceilings[TESSERA_HCA_QOS_CLASSES + 1];
};

/* A request that was taken out of the ring and is not complete yet. */
struct wire_request {
  tessera_hca_send_slot send; /* copied once from the ring, then checked and used */
  uint32_t status;            /* verbs status; unless it is SUCCESS, the request is not sent */
  uint32_t bytes, first_psn, packets;
};

struct wire_requester {
  uint32_t tail, head; /* ring positions of the requests in flight */
  uint32_t sending;    /* position of the request to which the next packet belongs */
  uint32_t free_psn;   /* of the next request that is taken */
  uint32_t oldest_psn, next_psn, top_psn; /* oldest unanswered; next to be sent; first never sent */
  uint32_t window, room; /* packets in flight: the most now, and the most ever */
  uint32_t answered;     /* packets answered since the window grew */
  unsigned retries, pauses, refusals; /* since the last progress */
  uint64_t deadline_ns; /* 0: nothing is in flight */
  bool paused;          /* the peer has requested a pause until `deadline_ns` */
  uint64_t resume_ns;   /* rate limits hold it back until then; 0: not at all */
  unsigned read_count;
  uint32_t read_ends[WIRE_READS]; /* end PSNs of the READs and atomics in flight */
  struct wire_request requests[WIRE_REQUESTS];
};

/* A READ, or an executed atomic, whose response is being sent. */
struct wire_reading {
  uint32_t psn, key, bytes, done;
  uint64_t address; /* for an atomic: the previous value */
  bool atomic;
};

/* Results of atomics: a repeated request gets the stored result and is not executed again. */
struct wire_results {
  unsigned count, next; /* a ring of all entries, because the number kept may change in SQD */
  struct {
    uint32_t psn;
    uint64_t before;
  } of[WIRE_READS];
};

struct wire_responder {
  uint32_t psn, msn; /* next expected; completed messages */
  uint32_t last_psn; /* PSN of the previous packet, in order or not */
  bool refused;      /* a gap has been reported */
  bool answers;      /* an acknowledgement is due */
  bool noted;        /* in the list of connections with responses due */
  enum wire_kind message; /* kind of the message in progress */
  uint32_t key, bytes, done;
  uint64_t address;
  unsigned reading_first, reading_count;
  struct wire_reading reading[WIRE_READS];
  struct wire_results results;
};

/* A queue pair's connection over a wire. */
struct hca_wired {
  struct hca_wire *wire;
  struct wire_path path; /* of the packets sent */
  unsigned lane;
  uint32_t mtu;
  struct hca_wired *next_noted;
  struct hca_wired *next_pair, *previous_pair; /* of its wire */
  struct hca_qp *qp; /* NULL: this is the path of datagrams */
  uint8_t tos;       /* of datagrams */
  struct wire_requester requester;
  struct wire_responder responder;
  struct wire_pace pace;
  struct wire_congestion congestion;
};

/* wire.c: connect a queue pair over its address's wire, with initial state. False: no memory. */
bool wire_join(struct hca_wire *wire, struct hca_qp *qp);

/* A packet in the send buffer. */
struct wire_out {
  struct hca_wired *wired;
  uint32_t offset, bytes; /* including the ICRC */
  uint8_t opcode, tos;
};

struct wire_batch {
  unsigned count;
  uint32_t used;
  struct wire_out out[WIRE_BATCH];
  uint8_t data[WIRE_BATCH * WIRE_MAX_PACKET];
};

/* wire/send.c. wire_begin() returns where the payload is to be written; the packet may be
 * abandoned before wire_end(). */
uint8_t *wire_begin(struct hca *hca, struct hca_wired *wired, const struct wire_packet *packet);
void wire_end(struct hca *hca, struct hca_wired *wired, const struct wire_packet *packet);
/* Send the packets made. Returns how many of them, counted from the last, were not sent because
 * the socket buffer was full. */
unsigned wire_flush(struct hca *hca);
/* addresses/receive.c: pass received packets to hca_wire_take(); true where there were any. */
bool wire_receive(struct hca *hca, struct wire_port *port);

/* wire/groups.c: called when the address is removed and receives nothing any more. */
void wire_groups_end(struct hca_wire *wire);

/* wire/target.c: find the connected queue pair for a packet: of this wire, with the packet's
 * source as its peer, and of the packet's partition. NULL if there is none, which is counted. */
struct hca_qp *wire_target(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                           uint32_t qpn, uint16_t pkey);
/* wire/routes.c: choose a source port by the flow label or, without one, by the two queue pair
 * numbers. */
unsigned wire_lane_of(const struct hca_wire *wire, uint32_t label, uint32_t own, uint32_t other);
/* Find the wire from an address of `client` to another address; NULL: there is none, or the
 * other address is local. */
struct hca_wire *hca_wire_towards(const struct hca *hca, const struct hca_client *client,
                                  unsigned sgid_index, const uint8_t *dgid);
struct hca_wire *wire_of(const struct hca *hca, const struct hca_client *client,
                         unsigned sgid_index);
/* Whether this engine serves an address itself: its queue pairs reach each other without a wire. */
bool wire_is_here(const struct hca *hca, const uint8_t *gid);

/* wire/datagram.c */
void wire_take_datagram(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                        unsigned part, const struct wire_packet *packet, const uint8_t *data,
                        size_t bytes);

/* wire/sources.c */
/* Return what a sender may send here; NULL: there is no verdict yet, and the packet waits. */
const struct hca_policy *wire_source_of(struct hca *hca, struct hca_wire *wire,
                                        const struct wire_path *path, unsigned part,
                                        const uint8_t *data, size_t bytes);
/* A valid datagram for a queue pair that would accept it, waiting for a verdict on its sender. */
struct wire_held {
  struct wire_held *next;
  struct wire_path path;
  bool reported;
  unsigned part;
  size_t bytes;
  uint8_t data[];
};

/* Remove the waiting datagrams of a sender that has a verdict now, in order of arrival. The
 * caller frees them. NULL: there are none. */
struct wire_held *wire_take_known(struct hca_wire *wire);
void wire_held_free(struct wire_held *held);
void wire_sources_end(struct hca_wire *wire);

/* addresses/admit.c: check one packet from `path->source`, segment number `part` of a coalesced
 * buffer, and execute it. */
void hca_wire_take(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                   unsigned part, const uint8_t *data, size_t bytes);
/* Process the datagrams whose senders have a verdict now. */
void wire_take_evaluated(struct hca *hca);

/* wire/mad.c: handle a packet for queue pair 1; false: it is for another. */
bool wire_take_mad(struct hca_wire *wire, const struct wire_path *path, unsigned part,
                   const struct wire_packet *packet, const uint8_t *data, size_t bytes);

/* connections/payload.c: false where a region was removed or does not allow the access. */
bool wire_gather(struct hca *hca, const struct hca_qp *qp, const tessera_hca_send_slot *send,
                 uint32_t offset, uint32_t bytes, uint8_t *to);
bool wire_scatter(struct hca *hca, const struct hca_qp *qp, const tessera_hca_sge *sges,
                  unsigned count, uint32_t offset, const uint8_t *from, uint32_t bytes);
bool wire_load(struct hca *hca, const struct hca_qp *qp, uint64_t address, uint32_t key,
               uint32_t bytes, uint8_t *to);
bool wire_store(struct hca *hca, const struct hca_qp *qp, uint64_t address, uint32_t key,
                const uint8_t *from, uint32_t bytes);

static inline struct wire_request *wire_request_at(struct wire_requester *requester,
                                                   uint32_t index) {
  return &requester->requests[index % WIRE_REQUESTS];
}

static inline bool wire_is_read(const struct wire_request *request) {
  return tessera_is_one_of(TESSERA_OPERATIONS_READ, request->send.opcode);
}

/* Whether the peer responds with data. */
static inline bool wire_is_answered(const struct wire_request *request) {
  return tessera_is_one_of(TESSERA_OPERATIONS_READ | TESSERA_OPERATIONS_ATOMIC,
                           request->send.opcode);
}

/* Whether nothing is sent for a request: it binds a window, or policy drops it without an error. */
static inline bool wire_is_silent(const struct wire_request *request) {
  return request->status == TESSERA_VERBS_STATUS_SUCCESS && request->packets == 0;
}

static inline bool wire_is_unreliable(const struct hca_qp *qp) {
  return qp->type == TESSERA_VERBS_QP_TYPE_UC;
}

/* connections/requests.c: take requests out of the ring and assign their PSNs. */
void wire_take_requests(struct hca *hca, struct hca_qp *qp);
/* Make the next packet; returns how many PSNs it uses, 0 where nothing may be sent now. */
uint32_t wire_make_next(struct hca *hca, struct hca_qp *qp);

/* connections/requester.c */
void wire_requester_begin(struct hca_qp *qp);
/* Resume a predecessor's state: take requests out of the ring again, from `first_psn` on, and
 * send from `oldest_psn` on, which may be in the middle of the first request. */
void wire_requester_resume(struct hca_qp *qp, const tessera_hca_saved_wired *saved);
/* Send what may be sent; true where more can be sent at once. */
bool wire_request(struct hca *hca, struct hca_qp *qp);
void wire_acknowledged(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);
void wire_read_response(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);

/* wire/ceiling.c: deny the request of the next packet, because new tables forbid it. */
void wire_deny(struct hca *hca, struct hca_qp *qp, struct wire_request *request);
/* Whether the next packet must wait for its flow's rate limits. */
bool wire_is_held_back(struct hca_qp *qp);
/* Charge the next `packets` PSNs of `request` to its flow. */
void wire_spend(struct hca_qp *qp, const struct wire_request *request, uint32_t packets);
/* Return when a requester must run even if nothing arrives; 0: never. */
uint64_t wire_wake_ns(struct wire_requester *requester);

/* connections/local.c: complete the oldest requests for which nothing is sent; false where the
 * queue pair has failed. */
bool wire_end_silent(struct hca *hca, struct hca_qp *qp);

/* connections/atomic.c */
void wire_keep_result(struct hca_qp *qp, uint32_t psn, uint64_t before);
struct wire_packet wire_make_atomic(const tessera_hca_send_slot *send);
void wire_carry_out_atomic(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);
/* Respond again to an atomic that was executed before. */
void wire_repeat_atomic(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);

/* connections/unreliable.c: handle a packet of an unreliable connection. */
void wire_respond_unreliably(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);

/* connections/answers.c */
void wire_note(struct hca *hca, struct hca_wired *wired);
void wire_send_answer(struct hca *hca, struct hca_qp *qp, uint32_t psn, uint8_t syndrome);
/* Send READ responses, as many packets as there is room for; true where more are left. */
bool wire_answer_reads(struct hca *hca, struct hca_qp *qp);
/* Send the acknowledgement that is due, unless a READ response must precede it. */
void wire_answer(struct hca *hca, struct hca_qp *qp);
void wire_will_answer(struct hca *hca, struct hca_qp *qp);
/* Return how many READs and atomics the peer may have in flight. */
unsigned wire_most_answers(const struct hca_qp *qp);
void wire_add_answer(struct hca *hca, struct hca_qp *qp, struct wire_reading reading);
/* Drop unsent responses from a PSN on: the peer will request them again. */
void wire_forget_answers(struct hca_qp *qp, uint32_t psn);
/* Fail the queue pair and send the peer the reason; `event` goes to the owner, -1: no event. */
void wire_refuse(struct hca *hca, struct hca_qp *qp, enum wire_nak reason, int event);

/* connections/responder.c */
void wire_responder_begin(struct hca_qp *qp);
/* Prepare for another peer: drop the previous peer's requests; the PSNs continue. */
void wire_responder_go_on(struct hca_qp *qp);
void wire_respond(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);
/* Whether a packet may have this position in a message and this length. */
bool wire_fits(const struct hca_qp *qp, const struct wire_packet *packet);
bool wire_may_reach(struct hca *hca, const struct hca_qp *qp, const struct wire_packet *packet,
                    uint32_t access, uint32_t bytes);
void wire_end_receive(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet,
                      uint32_t status);

/* Return the partition key, by the current table. */
static inline uint16_t wire_pkey(const struct hca_qp *qp) {
  return qp->client->pkeys[qp->attributes.pkey_index % TESSERA_HCA_PKEYS];
}

/* Whether pacing may delay packets of a connection. */
static inline bool wire_is_paced(const struct hca *hca, const struct hca_wired *wired) {
  return hca->pacing || wired->congestion.limited || wired->wire->port.per_ns != 0;
}

/* Whether pacing delays the next packet; idempotent. */
static inline bool wire_pace_holds(struct hca *hca, struct hca_qp *qp) {
  return wire_is_paced(hca, qp->wired) && wire_pace_must_wait(hca, qp);
}

/* Charge the packet that was made last. */
static inline void wire_pace_spend(struct hca *hca, struct hca_qp *qp) {
  qp->wired->congestion.sent += qp->wired->congestion.sent < WIRE_MOST_NOTED;
  if (wire_is_paced(hca, qp->wired)) wire_pace_charge(hca, qp);
}

/* Whether the function being served may send more; a turn always sends something. */
static inline bool wire_has_credit(const struct hca *hca) {
  return !hca->charged || hca->charged->credit > 0;
}

static inline uint32_t wire_packets(uint32_t bytes, uint32_t mtu) {
  return bytes ? (bytes + mtu - 1) / mtu : 1;
}

#endif
