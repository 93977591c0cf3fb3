/* Functions shared by the files that execute requests: outcome.c, elements.c, requester.c,
 * responder.c, datagram.c, datagram_send.c and turn.c. */
#ifndef HCA_WORK_H
#define HCA_WORK_H

#include "base/internal.h"

enum hca_step { HCA_STEP_DONE, HCA_STEP_AGAIN, HCA_STEP_WAIT, HCA_STEP_FAILED };

static inline bool hca_is_send(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_SEND, opcode);
}

static inline bool hca_is_write(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_WRITE, opcode);
}

static inline bool hca_has_immediate(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_WITH_IMMEDIATE, opcode);
}

/* Whether the operation invalidates a key of the receiver when it has ended. */
static inline bool hca_invalidates(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_WITH_INVALIDATE, opcode);
}

static inline bool hca_is_read(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_READ, opcode);
}

static inline bool hca_is_atomic(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_ATOMIC, opcode);
}

/* Whether the responder responds with data. */
static inline bool hca_is_answered(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_READ | TESSERA_OPERATIONS_ATOMIC, opcode);
}

/* Whether the operation writes eight bytes that are part of the request. */
static inline bool hca_is_atomic_write(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_ATOMIC_WRITE, opcode);
}

/* Whether the operation concerns the requester only. */
static inline bool hca_is_own(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_OWN, opcode);
}

static inline bool hca_takes_receive(uint32_t opcode) {
  return hca_is_send(opcode) || hca_has_immediate(opcode);
}

/* Return the access that a request needs to the requester's own memory. */
static inline uint32_t hca_local_access(uint32_t opcode) {
  return hca_is_answered(opcode) ? TESSERA_VERBS_ACCESS_LOCAL_WRITE : 0;
}

/* outcome.c */
/* Add a completion to a queue of `qp`; where the queue is full, the queue pair fails. */
void hca_finish(struct hca *hca, struct hca_qp *qp, struct hca_cq *cq, tessera_hca_cqe entry,
                bool solicited);
void hca_end_send(struct hca *hca, struct hca_qp *qp, uint32_t status);
enum hca_step hca_fail_send(struct hca *hca, struct hca_qp *qp, uint32_t status);
/* Complete the peer's receive request that `qp` uses. */
void hca_end_receive(struct hca *hca, struct hca_qp *peer, const struct hca_qp *qp,
                     uint32_t status);
/* Refuse a request: both ends fail, the responder with an event or a receive error, the
 * requester with a status. */
enum hca_step hca_refuse(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer, uint32_t event,
                         uint32_t status);
enum hca_step hca_refuse_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer,
                                 uint32_t there, uint32_t here);
enum hca_step hca_wait_for_peer(struct hca *hca, struct hca_qp *qp);
enum hca_step hca_wait_for_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer);
/* Return how many requests are in a ring; an invalid head makes the queue pair fail. */
uint32_t hca_pending(struct hca *hca, struct hca_qp *qp, const uint32_t *head, uint32_t tail,
                     uint32_t room);

/* Convert a code of the RNR NAK timer field. */
uint64_t hca_pause_ns(unsigned code);

/* elements.c */
uint64_t hca_sum(const tessera_hca_sge *sges, unsigned count);
bool hca_all_valid(struct hca *hca, const struct hca_qp *qp, const tessera_hca_sge *sges,
                   unsigned count, uint32_t access);
/* Return the memory at a cursor; NULL where its region was removed. Empty elements are skipped. */
uint8_t *hca_under(struct hca *hca, const struct hca_qp *qp, struct hca_cursor *cursor,
                   uint32_t access, uint64_t *bytes);

/* requester.c */
/* Check what the requester alone is responsible for; returns a verbs status. */
uint32_t hca_check_local(struct hca *hca, struct hca_qp *qp);
uint8_t *hca_local_memory(struct hca *hca, struct hca_qp *qp, uint64_t *bytes);
/* Bind or invalidate a memory window; returns a verbs status. */
uint32_t hca_carry_out_own(struct hca *hca, struct hca_qp *qp);

/* admit.c: HCA_STEP_AGAIN where policy allows the request to start or to continue. */
enum hca_step hca_admit(struct hca *hca, struct hca_qp *qp, const struct hca_qp *peer);
/* Account for an executed part of a request; with `done` the request is complete. */
void hca_account(struct hca_qp *qp, uint32_t bytes, bool done);
/* The same for a datagram, which is counted when it may be sent; HCA_STEP_FAILED: it was
 * dropped. */
enum hca_step hca_admit_datagram(struct hca *hca, struct hca_qp *qp, const struct hca_ah *ah);

/* responder.c */
/* HCA_STEP_AGAIN where the peer permits the request. */
enum hca_step hca_check_remote(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer);
/* Execute it once: HCA_STEP_DONE, or how it was refused. */
enum hca_step hca_carry_out_atomic(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer);
/* Copy the peer's next receive request, and check it. */
enum hca_step hca_take_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer);
uint8_t *hca_remote_memory(struct hca *hca, struct hca_qp *peer, struct hca_work *work,
                           uint64_t *bytes);
/* Fail a request whose responder's memory was removed after it had been accepted. */
enum hca_step hca_lose_remote(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer);

/* datagram.c */
/* The properties of a datagram; its data is in the engine's buffer. */
struct hca_datagram {
  uint32_t bytes, qkey, immediate, source_qpn;
  uint8_t service_level;
  bool has_immediate, solicited;
};
/* Write the 40 bytes before a datagram: the IP header as in RoCEv2, in the last 20 bytes for
 * IPv4. Lengths include what a packet adds: UDP, BTH, DETH, ICRC. */
void hca_write_grh(uint8_t *header, const uint8_t *source, const tessera_hca_ah_create *path,
                   uint32_t bytes);
/* Deliver a datagram to a queue pair that policy allows; it is dropped where it does not fit. */
void hca_deliver_datagram(struct hca *hca, struct hca_qp *peer,
                          const struct hca_datagram *datagram);
/* Cost of one more receiver of a datagram or frame, besides its bytes. */
enum { HCA_RECEIVER_COST = 512 };
/* groups.c */
bool hca_is_group(const uint8_t *gid);
/* Return the member of a group after `last`; with NULL the first; NULL: there are no more. */
const struct hca_member *hca_next_member(struct hca *hca, const uint8_t *gid,
                                         const struct hca_member *last);
/* Whether policy lets a member receive what `sender`, of this engine, sends to its group. */
bool hca_may_receive(struct hca *hca, const struct hca_member *member,
                     const struct hca_qp *sender);
/* wire/datagram.c: send the datagram that `qp` is executing; its data is in the engine's buffer.
 * HCA_STEP_AGAIN: it was sent and is not complete yet. */
enum hca_step hca_wire_send_datagram(struct hca *hca, struct hca_qp *qp, struct hca_wire *wire,
                                     const tessera_hca_ah_create *path,
                                     const struct hca_datagram *datagram);
/* Copy the engine's buffer into the receive request that `peer` holds; false where its memory
 * was removed. */
bool hca_scatter_datagram(struct hca *hca, struct hca_qp *peer, const uint8_t *from,
                          uint32_t bytes);
/* datagram_send.c */
/* Copy the request's data into the engine's buffer, after the space for a header. */
bool hca_gather_datagram(struct hca *hca, struct hca_qp *qp);
/* A datagram to a group is charged for each receiver. */
enum hca_step hca_carry_out_datagram(struct hca *hca, struct hca_qp *qp);

/* frame.c: parse the headers of an Ethernet frame. False where it must not move: it is RoCE, or
 * may be. */
bool hca_read_frame(const uint8_t *frame, uint32_t bytes, tessera_hca_frame_fields *fields);
/* steer.c */
bool hca_steers(const struct hca_steer *steer, const tessera_hca_frame_fields *fields);
struct hca_qp *hca_steer_target(const struct hca_steer *steer,
                                const tessera_hca_frame_fields *fields);
/* raw.c */
enum hca_step hca_carry_out_frame(struct hca *hca, struct hca_qp *qp);

#endif
