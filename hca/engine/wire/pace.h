/* When a queue pair may send its next packet, and with which DSCP: QoS classes, and congestion.
 *
 * Classes are the engine's: hcad numbers those of its tables from 1 on, and tells each queue pair's
 * with its policy. Nothing here is looked at for a queue pair that has no class, no congestion and
 * no other class beside it. Everything is used with the engine's lock held. */
#ifndef HCA_WIRE_PACE_H
#define HCA_WIRE_PACE_H

#include "base/internal.h"
#include "base/policy.h"

/* The lower two bits of IPv4's TOS and IPv6's traffic class (RFC 3168). */
enum wire_ecn { WIRE_ECN_NONE, WIRE_ECN_1, WIRE_ECN_0, WIRE_ECN_MARKED, WIRE_ECN_MASK = 3 };

enum {
  WIRE_STEP_COST = 32, /* work: a rate that is raised once */
  WIRE_MOST_NOTED = 256, /* packets that notifications may still come of */
  WIRE_CNP = 0x81, /* BTH opcode (IBTA annex A17) */
  WIRE_USUAL_TOS = WIRE_ECN_0, /* as sockets are opened: a packet with another one says so itself */
  WIRE_CNP_TOS = 48 << 2, /* CS6, as network cards have it; not to be marked itself */
};

struct wire_class {
  tessera_hca_qos_class said;
  struct hca_bucket least; /* tokens while it gets less than it is promised */
  double served;           /* virtual time: bytes sent, over its weight */
  unsigned ready;          /* queue pairs that could send, but for the others */
};

/* Place 0 is of whoever has no class; its weight is 1. */
struct hca_pacing {
  uint64_t number; /* from 1 on; no others have had it */
  unsigned count; /* 1: there are no classes */
  unsigned ready;
  struct wire_class classes[TESSERA_HCA_QOS_CLASSES + 1];
};

/* A queue pair's state; zeros at first. */
struct wire_pace {
  uint64_t now_ns;  /* of this turn */
  uint64_t wake_ns; /* it is held until then */
  bool wants;       /* it could send, but for the others */
  uint64_t ready;   /* the classes in whose `ready` it is counted; 0: in none */
  unsigned ready_in;
};

/* A reaction point's (DCQCN), and when its owner notified the peer last. */
struct wire_congestion {
  bool limited;
  uint32_t sent; /* packets that nobody has notified of */
  uint64_t notified_ns, next_cut_ns, next_ns;
  unsigned times, volumes; /* how often time and volume have passed since the last notification */
  uint64_t bytes;          /* of the volume that is not complete */
  double alpha, rate, target; /* rates in bytes per ns */
  struct hca_bucket bucket;
};

struct hca_wired;
struct wire_path;

/* wire/pace.c */
unsigned wire_class_of(const struct hca *hca, const struct hca_qp *qp);
/* What a packet's TOS or traffic class is. */
uint8_t wire_tos(const struct hca *hca, const struct hca_qp *qp, uint8_t opcode);
/* Begins and ends a queue pair's turn; the latter returns whether to have another one at once, given
 * whether there is `more` to send. */
void wire_pace_begin(struct hca_qp *qp);
bool wire_pace_end(struct hca *hca, struct hca_qp *qp, bool more);
/* Whether the next packet has to wait, and that the one made last is sent: by wire_pace_holds() and
 * wire_pace_spend(), where somebody asks. */
bool wire_pace_asks(struct hca *hca, struct hca_qp *qp);
void wire_pace_charge(struct hca *hca, struct hca_qp *qp);

/* wire/rate.c */
/* Does what was to be done since the last time. */
/* Returns how many steps that took. */
unsigned wire_congestion_advance(struct wire_congestion *congestion, uint64_t now_ns);
/* A notification came. */
void wire_congestion_cut(struct wire_congestion *congestion, uint64_t now_ns);
/* How long until a queue pair's own rate lets it send again, 0: not at all. */
uint64_t wire_congestion_wait_ns(struct wire_congestion *congestion, uint64_t now_ns);
void wire_congestion_spend(struct wire_congestion *congestion, uint64_t bytes);
/* wire/congestion.c */
/* A packet came that the network has marked: the sender is told, now and then. */
void wire_congestion_marked(struct hca *hca, struct hca_qp *qp, uint8_t opcode);
/* A congestion notification came, or what says that it is one. */
void wire_congestion_take(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                          const uint8_t *data, size_t bytes);

#endif
