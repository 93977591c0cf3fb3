/* API of the virtual HCA's engine, which hcad calls through ctypes.
 *
 * The caller owns the returned pointers and frees them. Every call is safe while the engine's
 * thread runs. Only the engine reads memory that a client can write. */
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

/* Start the engine's thread. Returns NULL with errno set on failure. */
HCA_EXPORT struct hca *hca_new(void);
HCA_EXPORT void hca_free(struct hca *hca);

/* Add a client. The engine maps the page and duplicates the pipe ends; the caller keeps its
 * descriptors. Returns NULL with errno set on failure. */
HCA_EXPORT struct hca_client *hca_client_new(struct hca *hca, int page_fd, int doorbell_fd,
                                             int async_fd, const uint8_t *gids);
/* Stop serving a client whose objects are then removed one by one: its queue pairs neither send nor
 * receive, and its regions cannot be accessed. Takes constant time. */
HCA_EXPORT void hca_client_end(struct hca *hca, struct hca_client *client);
/* Free a client. All its objects must have been freed before. */
HCA_EXPORT void hca_client_free(struct hca *hca, struct hca_client *client);
/* Make the engine read the client's page even if the client did not ring. Returns the number of
 * rounds of the client's function so far: turns that ended, and passes that found no work. Once
 * that number has grown by two, the engine has read the page (the first of these rounds may have
 * begun before this call), unless the function's programs have set more bits than one turn
 * processes. How many of the posted requests are complete by then depends on the function's
 * other work. */
HCA_EXPORT uint64_t hca_client_rounds(struct hca *hca, struct hca_client *client);

HCA_EXPORT struct hca_cq *hca_cq_new(struct hca *hca, struct hca_client *client, uint32_t handle,
                                     int page_fd, uint64_t page_bytes, uint32_t count,
                                     int notify_fd);
/* Replace a completion queue's page. Returns false with errno set; EINVAL: the new page is too
 * small. */
HCA_EXPORT bool hca_cq_resize(struct hca *hca, struct hca_cq *cq, int page_fd, uint64_t page_bytes,
                              uint32_t count);
HCA_EXPORT void hca_cq_free(struct hca *hca, struct hca_cq *cq);

HCA_EXPORT struct hca_segment *hca_segment_new(struct hca *hca, int fd, uint64_t bytes);
/* Let no request reach a segment whose regions are then removed one by one. Takes constant time. */
HCA_EXPORT void hca_segment_end(struct hca *hca, struct hca_segment *segment);
HCA_EXPORT void hca_segment_free(struct hca *hca, struct hca_segment *segment);

/* Add a memory region. The caller has checked that the pieces are inside their segments and add
 * up to the region's size. */
HCA_EXPORT struct hca_region *hca_region_new(struct hca *hca, struct hca_client *client,
                                             uint32_t key, const tessera_hca_mr_create *wanted,
                                             struct hca_segment *const *segments);
HCA_EXPORT void hca_region_free(struct hca *hca, struct hca_region *region);

HCA_EXPORT struct hca_qp *hca_qp_new(struct hca *hca, struct hca_client *client,
                                     const tessera_hca_qp_create *wanted,
                                     const tessera_hca_created *made, int page_fd,
                                     struct hca_cq *send_cq, struct hca_cq *recv_cq,
                                     struct hca_srq *srq);
/* Apply attributes whose change the caller has validated, if the queue pair is still in state
 * `from`; returns false if it has failed meanwhile. RESET drops all requests. In SQD the address
 * may change once hca_qp_drains() returns false: the PSNs with which the connection continues
 * are written back to `attributes`. `policy` is the policy for the new peer and takes effect
 * together with the address; NULL keeps the current policy. */
HCA_EXPORT int hca_qp_set(struct hca *hca, struct hca_qp *qp, uint32_t from,
                          tessera_hca_qp_attributes *attributes,
                          const tessera_hca_policy_change *policy);
HCA_EXPORT uint32_t hca_qp_state(struct hca *hca, struct hca_qp *qp);
/* Whether the queue pair is in SQD and still has an incomplete request. */
HCA_EXPORT bool hca_qp_drains(struct hca *hca, struct hca_qp *qp);
HCA_EXPORT void hca_qp_free(struct hca *hca, struct hca_qp *qp);

/* Between hca_hold() and hca_release() the engine processes no request, and writes to pages only
 * within API calls. Objects may be added, and loaded with the state that the predecessor saved. */
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
/* Load the windows after the client's regions. */
HCA_EXPORT void hca_window_save(struct hca *hca, const struct hca_window *window,
                                tessera_hca_saved_window *saved);
HCA_EXPORT void hca_window_load(struct hca *hca, struct hca_window *window,
                                const tessera_hca_saved_window *saved);

/* Whether the engine detects pages that a client has removed before it touches them
 * (userfaultfd). */
HCA_EXPORT int hca_watches_memory(const struct hca *hca);

/* Add a flow: a set of counters that queue pairs' policies reference. The caller frees it after
 * the last queue pair that references it. */
HCA_EXPORT struct hca_flow *hca_flow_new(struct hca *hca);
HCA_EXPORT void hca_flow_free(struct hca *hca, struct hca_flow *flow);
HCA_EXPORT void hca_flows_read(struct hca *hca, struct hca_flow *const *flows, uint32_t count,
                               tessera_hca_flow_counts *counts);
/* Add a rate limit for flows. The rate is per second, 0 for unlimited; `burst` is what may be
 * sent at once after a pause. hca_flow_limit() copies the list and returns 0 or ENOMEM. The
 * caller frees a limit after the last flow that uses it. */
HCA_EXPORT struct hca_limit *hca_limit_new(struct hca *hca, uint64_t bytes_per_second,
                                           uint64_t burst_bytes, uint64_t operations_per_second,
                                           uint64_t burst_operations);
HCA_EXPORT void hca_limit_free(struct hca *hca, struct hca_limit *limit);
HCA_EXPORT int hca_flow_limit(struct hca *hca, struct hca_flow *flow,
                              struct hca_limit *const *limits, uint32_t count);
/* Set the policies of several queue pairs atomically, and fail the queue pairs that are revoked.
 * After the call returns, the engine moves no byte that the new policies forbid. A new queue
 * pair is allowed nothing. */
HCA_EXPORT void hca_policies_set(struct hca *hca, const tessera_hca_policy_change *changes,
                                 uint32_t count);
/* wire/pace.c: set the QoS classes, at most TESSERA_HCA_QOS_CLASSES. Policies refer to a class
 * by its position, counted from 1. Returns 0 or an errno value. */
HCA_EXPORT int hca_qos_classes_set(struct hca *hca, const tessera_hca_qos_class *classes,
                                   uint32_t count);
/* Add a wire: it connects queue pairs with this local address to peers on other nodes, over UDP
 * sockets bound to the address, which the engine duplicates. The first socket receives; each
 * socket sends from its own port. */
HCA_EXPORT struct hca_wire *hca_wire_new(struct hca *hca, const tessera_hca_wire *wanted);
/* Remove a wire; its connected queue pairs fail. */
HCA_EXPORT void hca_wire_free(struct hca *hca, struct hca_wire *wire);
HCA_EXPORT void hca_wire_counts(struct hca *hca, struct hca_wire *wire,
                                tessera_hca_wire_counts *counts);
/* wire/groups.c: receive a multicast group's packets for this wire, on a socket that is bound to
 * the group and a member of it; the engine duplicates the socket. Returns 0 or an errno value. */
HCA_EXPORT int hca_wire_join(struct hca *hca, struct hca_wire *wire, const uint8_t *group, int fd);
HCA_EXPORT void hca_wire_quit(struct hca *hca, struct hca_wire *wire, const uint8_t *group);
/* wire/sources.c: the caller evaluates policy for each sender of datagrams, and again after each
 * change of the tables. Returns an eventfd that is readable while hca_pending_sources() has
 * entries; -1: there is no wire. */
HCA_EXPORT int hca_pending_sources_fd(const struct hca *hca);
/* List the senders whose datagrams wait for a verdict, each once, at most `room` of them.
 * Returns their number. */
HCA_EXPORT uint32_t hca_pending_sources(struct hca *hca, tessera_hca_pending_source *pending, uint32_t room);
/* Add a sender, which is allowed nothing until hca_policies_set() sets its policy as for an
 * address handle. */
HCA_EXPORT struct hca_ah *hca_source_new(struct hca *hca, struct hca_wire *wire,
                                         const uint8_t *gid);
/* Process the sender's waiting datagrams: deliver them or drop them, as its policy requires. */
HCA_EXPORT void hca_source_take(struct hca *hca, struct hca_ah *source);
HCA_EXPORT void hca_source_free(struct hca *hca, struct hca_ah *source); /* freed before its wire */
HCA_EXPORT void hca_source_unknown(struct hca *hca, struct hca_wire *wire, const uint8_t *gid);
/* wire/mad.c: write each management datagram for queue pair 1 into a pipe, as a tessera_hca_mad.
 * The engine duplicates the pipe's end, which must be non-blocking. Returns 0 or an errno value. */
HCA_EXPORT int hca_wire_mads(struct hca *hca, struct hca_wire *wire, int fd);
/* Send a MAD of TESSERA_HCA_MAD_BYTES from queue pair 1 to the queue pair 1 of an address.
 * Delivery is not guaranteed. */
HCA_EXPORT int hca_wire_send_mad(struct hca *hca, struct hca_wire *wire, const uint8_t *gid,
                                 const uint8_t *mad, uint16_t pkey);
/* resources.c: set a client's TESSERA_HCA_PKEYS partition keys, 0 for an empty entry. A new
 * client has 0xffff as its first. */
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
/* groups.c: add a queue pair to a multicast group. The caller frees the membership before its
 * queue pair. An `open` member receives from every sender; any other member receives from a
 * sender of the same engine only if a pair exists for the two. */
HCA_EXPORT struct hca_member *hca_member_new(struct hca *hca, struct hca_qp *qp,
                                             const uint8_t *gid, bool open);
HCA_EXPORT void hca_member_free(struct hca *hca, struct hca_member *member);
/* Let a member receive from a sender; both are identified by their second GIDs. The member
 * receives nothing until hca_policies_set() sets the pair's policy, as for an address handle; of
 * that policy, `receives` applies. */
HCA_EXPORT struct hca_ah *hca_pair_new(struct hca *hca, const uint8_t *member,
                                       const uint8_t *sender);
HCA_EXPORT void hca_pair_free(struct hca *hca, struct hca_ah *pair);

/* Add a steering rule: frames that match it go to wanted->target_count raw packet queue pairs.
 * The caller frees the rule before any of them. */
HCA_EXPORT struct hca_steer *hca_steer_new(struct hca *hca,
                                           const tessera_hca_steer_create *wanted,
                                           struct hca_qp *const *targets);
HCA_EXPORT void hca_steer_free(struct hca *hca, struct hca_steer *steer);

/* Read how much work the function with this address has had since hca_work_restart(), in the
 * units of base/internal.h. */
HCA_EXPORT void hca_work_read(struct hca *hca, const uint8_t *gid, tessera_hca_work_counts *counts);
HCA_EXPORT void hca_work_restart(struct hca *hca);

/* Read how often the engine has gone to sleep, and how many iterations of its loop have run. An
 * idle engine increments neither. */
HCA_EXPORT void hca_counters(struct hca *hca, uint64_t *sleeps, uint64_t *turns);

#endif
