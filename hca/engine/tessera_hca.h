/* The virtual HCA's engine, as hcad calls it. Pointers are the caller's to keep; every call may be
 * made while the engine runs. What a client can write is read by the engine alone. */
#ifndef TESSERA_HCA_H
#define TESSERA_HCA_H

#include <stdbool.h>

#include "tessera_rdma_abi.h"

#define HCA_EXPORT __attribute__((visibility("default")))

struct hca;
struct hca_client;
struct hca_cq;
struct hca_segment;
struct hca_region;
struct hca_qp;
struct hca_flow;
struct hca_limit;
struct hca_wire;
struct hca_srq;
struct hca_ah;
struct hca_window;
struct hca_member;
struct hca_steer;

/* Starts the engine's thread; NULL with errno set. */
HCA_EXPORT struct hca *hca_new(void);
HCA_EXPORT void hca_free(struct hca *hca);

/* The engine takes over no descriptor: it maps pages, and duplicates ends of pipes. NULL: errno. */
HCA_EXPORT struct hca_client *hca_client_new(struct hca *hca, int page_fd, int doorbell_fd,
                                             int async_fd, const uint8_t *gids);
/* After all its objects. */
HCA_EXPORT void hca_client_free(struct hca *hca, struct hca_client *client);
/* Has the engine read the client's page, even if it did not ring; how many turns of the client's function
 * have ended, and looks that found nothing for it. Of two more the first may have begun before; the second
 * reads the page, if the function's programs have not set more bits than a turn takes. How much of what
 * was posted is carried out by then depends on what else the function has to do. */
HCA_EXPORT uint64_t hca_client_rounds(struct hca *hca, struct hca_client *client);

HCA_EXPORT struct hca_cq *hca_cq_new(struct hca *hca, struct hca_client *client, uint32_t handle,
                                     int page_fd, uint64_t page_bytes, uint32_t count,
                                     int notify_fd);
/* Puts another page in a completion queue's place; false with errno set, EINVAL: too small. */
HCA_EXPORT bool hca_cq_resize(struct hca *hca, struct hca_cq *cq, int page_fd, uint64_t page_bytes,
                              uint32_t count);
HCA_EXPORT void hca_cq_free(struct hca *hca, struct hca_cq *cq);

HCA_EXPORT struct hca_segment *hca_segment_new(struct hca *hca, int fd, uint64_t bytes);
HCA_EXPORT void hca_segment_free(struct hca *hca, struct hca_segment *segment);

/* Pieces were checked by the caller to lie inside their segments and to add up to the size. */
HCA_EXPORT struct hca_region *hca_region_new(struct hca *hca, struct hca_client *client,
                                             uint32_t key, const tessera_hca_mr_create *wanted,
                                             struct hca_segment *const *segments);
HCA_EXPORT void hca_region_free(struct hca *hca, struct hca_region *region);

HCA_EXPORT struct hca_qp *hca_qp_new(struct hca *hca, struct hca_client *client,
                                     const tessera_hca_qp_create *wanted,
                                     const tessera_hca_created *made, int page_fd,
                                     struct hca_cq *send_cq, struct hca_cq *recv_cq,
                                     struct hca_srq *srq);
/* Takes attributes whose change was checked by the caller, if the queue pair is still in state
 * `from`; false where it has failed meanwhile. RESET forgets all requests. In SQD an address changes
 * after hca_qp_drains() is false: the PSNs where it goes on are written back. `policy` is for the
 * peer that is named, and takes effect with the address; NULL: it stays. */
HCA_EXPORT int hca_qp_set(struct hca *hca, struct hca_qp *qp, uint32_t from,
                          tessera_hca_qp_attributes *attributes,
                          const tessera_hca_policy_change *policy);
HCA_EXPORT uint32_t hca_qp_state(struct hca *hca, struct hca_qp *qp);
/* Whether it is in SQD and a request is not complete. */
HCA_EXPORT bool hca_qp_drains(struct hca *hca, struct hca_qp *qp);
HCA_EXPORT void hca_qp_free(struct hca *hca, struct hca_qp *qp);

/* From the return of the one to the other no request is worked on, and no page written to but by
 * calls. Objects may be added, and loaded with what a predecessor saved. */
HCA_EXPORT void hca_hold(struct hca *hca);
HCA_EXPORT void hca_release(struct hca *hca);
HCA_EXPORT void hca_cq_save(struct hca *hca, const struct hca_cq *cq, tessera_hca_saved_cq *saved);
HCA_EXPORT void hca_cq_load(struct hca *hca, struct hca_cq *cq, const tessera_hca_saved_cq *saved);
HCA_EXPORT void hca_qp_save(struct hca *hca, const struct hca_qp *qp, tessera_hca_saved_qp *saved);
HCA_EXPORT bool hca_qp_load(struct hca *hca, struct hca_qp *qp, const tessera_hca_saved_qp *saved);
HCA_EXPORT void hca_srq_save(struct hca *hca, const struct hca_srq *srq,
                             tessera_hca_saved_srq *saved);
HCA_EXPORT void hca_srq_load(struct hca *hca, struct hca_srq *srq,
                             const tessera_hca_saved_srq *saved);
/* After its client's regions. */
HCA_EXPORT void hca_window_save(struct hca *hca, const struct hca_window *window,
                                tessera_hca_saved_window *saved);
HCA_EXPORT void hca_window_load(struct hca *hca, struct hca_window *window,
                                const tessera_hca_saved_window *saved);

/* Whether pages that a client takes away are noticed before they are touched. */
HCA_EXPORT int hca_watches_memory(const struct hca *hca);

/* A row of counters, for queue pairs' policies; freed after the last queue pair that has it. */
HCA_EXPORT struct hca_flow *hca_flow_new(struct hca *hca);
HCA_EXPORT void hca_flow_free(struct hca *hca, struct hca_flow *flow);
HCA_EXPORT void hca_flows_read(struct hca *hca, struct hca_flow *const *flows, uint32_t count,
                               tessera_hca_flow_counts *counts);
/* What flows may do in a second, 0 for whatever they like; `burst` at once after a pause. A flow
 * keeps a copy of the list; ENOMEM or 0. A limit is freed after the last flow that has it. */
HCA_EXPORT struct hca_limit *hca_limit_new(struct hca *hca, uint64_t bytes_per_second,
                                           uint64_t burst_bytes, uint64_t operations_per_second,
                                           uint64_t burst_operations);
HCA_EXPORT void hca_limit_free(struct hca *hca, struct hca_limit *limit);
HCA_EXPORT int hca_flow_limit(struct hca *hca, struct hca_flow *flow,
                              struct hca_limit *const *limits, uint32_t count);
/* Gives queue pairs their policies, and ends those to be revoked, all at once: when it returns, no
 * byte moves any more that the new policies forbid. A new queue pair may do nothing. */
HCA_EXPORT void hca_policies_set(struct hca *hca, const tessera_hca_policy_change *changes,
                                 uint32_t count);
/* wire/pace.c: the QoS classes that policies name by place, from 1 on; at most
 * TESSERA_HCA_QOS_CLASSES. An errno value, or 0. */
HCA_EXPORT int hca_qos_classes_set(struct hca *hca, const tessera_hca_qos_class *classes,
                                   uint32_t count);
/* Lets queue pairs with this address of their own reach others elsewhere, over UDP sockets that are
 * bound to it: the engine duplicates them. The first receives; each sends from a port of its own. */
HCA_EXPORT struct hca_wire *hca_wire_new(struct hca *hca, const tessera_hca_wire *wanted);
/* Ends what is connected over it. */
HCA_EXPORT void hca_wire_free(struct hca *hca, struct hca_wire *wire);
HCA_EXPORT void hca_wire_counts(struct hca *hca, struct hca_wire *wire,
                                tessera_hca_wire_counts *counts);
/* wire/groups.c: has what comes over a wire to a multicast group, by a socket that is bound to it and
 * a member of it; the engine duplicates it. An errno value, or 0. */
HCA_EXPORT int hca_wire_join(struct hca *hca, struct hca_wire *wire, const uint8_t *group, int fd);
HCA_EXPORT void hca_wire_quit(struct hca *hca, struct hca_wire *wire, const uint8_t *group);
/* wire/sources.c: who sends datagrams over a wire is judged by the caller, once and again with other
 * policies. An eventfd, readable while hca_asked() has anything to say: -1 where there is no wire. */
HCA_EXPORT int hca_asks_fd(const struct hca *hca);
/* Whose datagrams wait: each once, at most `room`; how many. */
HCA_EXPORT uint32_t hca_asked(struct hca *hca, tessera_hca_asked *asked, uint32_t room);
/* One who may do nothing until hca_policies_set() is told of it as of an address handle. */
HCA_EXPORT struct hca_ah *hca_source_new(struct hca *hca, struct hca_wire *wire,
                                         const uint8_t *gid);
/* Carries out, or drops, what has waited. */
HCA_EXPORT void hca_source_take(struct hca *hca, struct hca_ah *source);
HCA_EXPORT void hca_source_free(struct hca *hca, struct hca_ah *source); /* before its wire */
HCA_EXPORT void hca_source_unknown(struct hca *hca, struct hca_wire *wire, const uint8_t *gid);
/* wire/mad.c. Writes each management datagram that comes to queue pair 1 into a pipe, as a tessera_hca_mad;
 * the engine duplicates its end, which must not block. Returns an errno value, or 0. */
HCA_EXPORT int hca_wire_mads(struct hca *hca, struct hca_wire *wire, int fd);
/* Sends TESSERA_HCA_MAD_BYTES from queue pair 1 to that of an address; it may get lost. */
HCA_EXPORT int hca_wire_send_mad(struct hca *hca, struct hca_wire *wire, const uint8_t *gid,
                                 const uint8_t *mad, uint16_t pkey);
/* resources.c. TESSERA_HCA_PKEYS partition keys, 0 for none; a new client has 0xffff first. */
HCA_EXPORT void hca_client_set_pkeys(struct hca *hca, struct hca_client *client,
                                     const uint16_t *pkeys);
HCA_EXPORT struct hca_srq *hca_srq_new(struct hca *hca, struct hca_client *client,
                                       const tessera_hca_created *made, uint32_t limit,
                                       int page_fd);
HCA_EXPORT void hca_srq_set_limit(struct hca *hca, struct hca_srq *srq, uint32_t limit);
HCA_EXPORT uint32_t hca_srq_limit(struct hca *hca, struct hca_srq *srq);
HCA_EXPORT void hca_srq_free(struct hca *hca, struct hca_srq *srq);
HCA_EXPORT struct hca_ah *hca_ah_new(struct hca *hca, struct hca_client *client, uint32_t key,
                                     const tessera_hca_ah_create *path);
HCA_EXPORT void hca_ah_free(struct hca *hca, struct hca_ah *ah);
HCA_EXPORT struct hca_window *hca_window_new(struct hca *hca, struct hca_client *client,
                                             uint32_t key, const tessera_hca_mw_create *wanted);
HCA_EXPORT void hca_window_free(struct hca *hca, struct hca_window *window);
/* groups.c. A membership goes before its queue pair; `open`: it hears everybody. Any other hears of
 * this engine's senders those that it makes a pair with. */
HCA_EXPORT struct hca_member *hca_member_new(struct hca *hca, struct hca_qp *qp,
                                             const uint8_t *gid, bool open);
HCA_EXPORT void hca_member_free(struct hca *hca, struct hca_member *member);
/* By the second GIDs of both. The member hears nothing before hca_policies_set() is told of the pair
 * as of an address handle: its `receives`. */
HCA_EXPORT struct hca_ah *hca_pair_new(struct hca *hca, const uint8_t *member,
                                       const uint8_t *sender);
HCA_EXPORT void hca_pair_free(struct hca *hca, struct hca_ah *pair);

/* Which frames go to which raw packet queue pairs, as many as wanted->target_count. It goes before
 * any of them. */
HCA_EXPORT struct hca_steer *hca_steer_new(struct hca *hca,
                                           const tessera_hca_steer_create *wanted,
                                           struct hca_qp *const *targets);
HCA_EXPORT void hca_steer_free(struct hca *hca, struct hca_steer *steer);

/* The work of the function that has an address, in units of share.c, since hca_work_restart(). */
HCA_EXPORT void hca_work_read(struct hca *hca, const uint8_t *gid, tessera_hca_work_counts *counts);
HCA_EXPORT void hca_work_restart(struct hca *hca);

/* How often the engine went to sleep, and how many turns it took: an idle one does neither. */
HCA_EXPORT void hca_counters(struct hca *hca, uint64_t *sleeps, uint64_t *turns);

#endif
