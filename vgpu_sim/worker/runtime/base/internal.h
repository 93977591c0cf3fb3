/* State and functions shared by the runtime's files. */
#ifndef TESSERA_WORKER_INTERNAL_H
#define TESSERA_WORKER_INTERNAL_H

#include <stdbool.h>

#include "blocks/cta.h"
#include "base/fiber.h"
#include "tessera_worker.h"

enum {
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_NOT_SUPPORTED = 801
};

typedef enum { ACTIVITY_NONE, ACTIVITY_KERNEL, ACTIVITY_CALLBACK, ACTIVITY_COPY } activity;

/* Threads that run one request each: one for each stream, a leader and a spare. */
enum { TW_RUNNERS = TESSERA_MAX_STREAMS + 2 };

/* What a thread is doing, for the fault handler. */
typedef struct thread_activity {
  volatile activity kind;
  volatile uint64_t kernel;
  const uint8_t *volatile parameters; /* of a native kernel: TESSERA_MAX_PARAMETER_BYTES */
  const tessera_launch_context *volatile launch; /* of a native kernel, while it runs */
  const tw_stacks *volatile stacks;   /* while the groups of a block run; else NULL */
  volatile uint64_t shared_window;    /* base of this thread's shared memory; 0: none yet */
  volatile uint64_t shared_bytes;     /* shared memory per block in the last launch that used any */
  volatile uint64_t local_window;     /* base of the running block's local memory, or 0 */
  /* Map memory that a kernel has accessed; false: the address is in none. NULL: all is mapped. */
  bool (*volatile map_accessed)(uint64_t address);
  /* Of the running block of a cluster: its rank, and the shared memory of the cluster's blocks. */
  const uint64_t *bases; /* NULL: the block is in no cluster */
  uint32_t rank, blocks;
  uint32_t runner;                    /* index below TW_RUNNERS, if it is a runner */
  tessera_thread_state state;
} thread_activity;

/* A copied slot, in which nothing changes any more. */
typedef struct request {
  tessera_slot slot;
  uint32_t depth;               /* of a launch from a kernel: how many grids are above it; else 0 */
  bool tail;                    /* of a graph from a kernel: it runs after those without */
  struct tw_children *children; /* what a launch that has ended launched; NULL: nothing */
  _Alignas(64) uint8_t parameters[TESSERA_MAX_PARAMETER_BYTES];
} request;

/* A stream's state in the scheduler. */
typedef struct stream {
  uint64_t tail;       /* slots copied out of the ring */
  uint64_t last_value; /* value of the last request copied */
  /* head of the ring at which the request is complete; 0: it is complete */
  uint64_t awaited;
  bool pending;        /* `next` holds a request that has not started */
  bool running;        /* atomic: `next` is running, and belongs to its runner */
  request next;
} stream;

/* Process-wide state. Fields not marked as atomic are written before the threads start. */
typedef struct worker {
  tessera_worker_config config;
  const tessera_client_area *client;
  tessera_worker_page *page;
  uint64_t aperture_base;
  uint32_t stopping; /* atomic */
} worker;

extern worker tw;
extern __thread thread_activity tw_current __attribute__((tls_model("initial-exec")));

/* ring.c: true when `s->next` is a complete, valid request. Does not return on a protocol error. */
bool tw_ring_fetch(uint32_t index, stream *s);
bool tw_ring_has_news(uint32_t index, const stream *s);
/* Copy and check the request at a place of a list in memory. Returns the place of the next one.
 * Does not return on a protocol error. */
uint32_t tw_list_fetch(request *r, const tessera_list_body *list, uint32_t place);
/* Check a request that a kernel submitted. Does not return on a protocol error. */
void tw_child_check(request *r);

/* timeline.c. One thread per stream publishes. */
void tw_publish(uint32_t stream_index, uint64_t value);
/* Freeze all timelines; from any thread, but not inside tw_publish. */
void tw_freeze_timelines(void);
bool tw_timelines_frozen(void);

/* occupancy.c: the share of multiprocessors that have a block while a launch runs, and the share
 * of these multiprocessors' warp slots that are in use, as fractions of TESSERA_WORKER_ALL. */
typedef struct tw_occupancy {
  uint32_t active, occupied;
} tw_occupancy;
tw_occupancy tw_occupancy_of(const tessera_worker_kernel *kernel, uint64_t blocks,
                             uint32_t block_threads, uint64_t dynamic_bytes);

/* copies.c: count a copy by its direction, which follows from the aperture addresses. */
void tw_count_copy(uint64_t destination, uint64_t source, uint64_t bytes);
void tw_count_set(uint64_t bytes);
/* Return the start time of a copy large enough to be timed; else 0, for which tw_copy_ends()
 * does nothing. */
uint64_t tw_copy_begins(uint64_t bytes);
void tw_copy_ends(uint64_t since_ns);
void tw_copies_read(tessera_worker_stats *out);

/* stats.c: the calling runner's launch. tw_launch_of describes it before it starts. Its
 * computing time begins with tw_launch_begins, if `handle` is not 0; else with
 * tw_launch_computes, after compilation. */
void tw_launch_of(const tessera_worker_kernel *kernel, const tessera_launch_body *body);
void tw_launch_begins(uint64_t handle);
void tw_launch_computes(uint64_t handle);
void tw_launch_ends(uint64_t blocks);

/* leader.c: one of the runners is the leader and owns the streams. The others run requests or
 * wait. A thread passes the lead on before it waits for anything except memory. */
void tw_lead_enter(uint32_t runner); /* each runner calls this first */
/* waits until the calling thread leads; false: the worker stops */
bool tw_lead_join(void);
bool tw_leads(void);
/* Called before the leader examines the streams; from then on it is notified of requests that
 * end. */
void tw_lead_look(void);
/* Called before a request. */
void tw_lead_begin(uint32_t stream);
/* Keep the lead: the next request is expected to be short, so the leader runs it itself. If it
 * turns out to be long, another thread takes the lead. */
void tw_lead_keep(void);
/* Pass the lead on, if the calling thread has it: its request, which runs or is about to start,
 * takes time. */
void tw_lead_pass(void);
/* Called after a request, once the client has been notified. */
void tw_lead_reported(void);
/* Called next, once the request's stream may start another one. Returns whether the calling
 * thread has led without interruption, so that its knowledge of the streams is current. */
bool tw_lead_after_request(void);
/* Sleep until the client rings, or for `limit_ns` (0: no limit). Returns false if the calling
 * thread does not have the lead any more. */
bool tw_lead_sleep(uint32_t how, uint64_t limit_ns);
/* Return how many requests other threads run. */
uint32_t tw_lead_running_elsewhere(void);
/* Start the runners, whose function is `main`. `any_news` returns whether a request can start, or
 * may be able to; `awaits_value` returns whether one waits for a value in memory. */
int tw_runners_start(void *(*main)(void *index), bool (*any_news)(void),
                     bool (*awaits_value)(void));
void tw_runners_stop(void);

/* scheduler.c */
int tw_scheduler_start(void);

/* values.c: whether the value that the request waits for has arrived; true for all other requests
 * than OP_AWAIT. */
bool tw_value_reached(const tessera_slot *slot);
/* Whether a request waits for a record of an event that will never be done; the caller has checked
 * the place and holds tw_chunks_lock. */
bool tw_event_never(const tessera_value_body *body);
/* Store a value; the caller has checked the place and holds tw_chunks_lock. */
void tw_value_store(const tessera_value_body *body);

/* child_records.c: the grids, copies, fills and graphs that a grid launches. While a grid whose kernel may
 * launch runs, it has the context's launch buffer alone; tw_children_take empties it, and returns
 * what the grid submitted, or NULL. All memory that the buffer's addresses name is checked. */
void tw_children_begin(const tessera_worker_kernel *kernel);
struct tw_children *tw_children_take(const tessera_worker_kernel *kernel, const request *parent);
/* Fill `r` with the next child, those of the tail stream last; false: there is none. Does not
 * return if a child is malformed. */
bool tw_children_next(struct tw_children *children, request *r);
bool tw_children_remain(const struct tw_children *children);
void tw_children_free(struct tw_children *children);

/* graphs.c: begin a list, which kernels in it may let graphs follow; take the next of these, those that
 * were launched since before all that wait (false: there is none); and end. */
void tw_graphs_begin(const tessera_list_body *list);
bool tw_graphs_next(tessera_list_body *list);
void tw_graphs_end(void);
/* Submit a graph, which a kernel in the list that the thread runs has launched; and return the address
 * of that list, or 0. */
void tw_graph_submit(const request *r);
uint64_t tw_graph_current(void);

/* children.c: run a request that is not a list, and then the children of a launch, their children
 * included; report each to the observer, if there is one. */
void tw_perform_whole(uint32_t stream, request *r);

/* lists.c: run a request to its end, and report it to the observer, if there is one. */
void tw_perform(uint32_t stream, request *r);

/* execute.c: run a request that is not a list. */
bool tw_expect_short(const request *r);
void tw_execute(request *r);
/* observe.c: report a request to the observer; returns whether that completes the request. */
bool tw_observe(uint32_t stream, const request *r);
/* Report a launch that has ended, before the requests that wait for it can start. */
void tw_observe_end(uint32_t stream, const request *r);
/* Called before the first launch. */
void tw_timer_begin(void);

/* kernels.c. A kernel's slot stays valid between acquire and release. Only runners call these,
 * each for one kernel at a time. */
const tessera_worker_kernel *tw_kernel_acquire(uint64_t handle);
void tw_kernel_release(void);

/* Called between acquire and release. A kernel whose parameters have addresses has only one
 * image of them, so its launches run one at a time. */
void tw_kernel_lock_image(uint64_t handle);
void tw_kernel_unlock_image(uint64_t handle);
/* Find the code for a launch's kernel and block shape. A launch in provisional code is
 * registered to receive better code, until the same runner calls tw_launch_settled. */
bool tw_variant_find(tw_launch *launch);
/* Store a launch's code for later launches, or replace it by better code that has arrived
 * meanwhile. */
void tw_variant_add(tw_launch *launch);
/* Replace the provisional code of the kernel's running launches and of later ones. Returns how
 * many are running; `running` gets their contexts. */
uint32_t tw_variant_replace(const tessera_worker_call *better,
                            const tessera_launch_context *running[TW_RUNNERS]);
void tw_launch_settled(void);
/* Account for a launch that has ended. */
void tw_kernel_account(uint64_t handle, uint64_t blocks, uint64_t busy_ns);
/* Estimate the duration of a launch of `blocks` blocks from earlier launches; UINT64_MAX:
 * unknown. */
uint64_t tw_kernel_expected_ns(uint64_t handle, uint64_t blocks);
void tw_kernel_expect_nothing(uint64_t handle);
/* Copy the name of a running kernel, for the fault record. */
void tw_kernel_name(uint64_t handle, char *name, uint64_t size);

/* chunks.c: the lock keeps chunks mapped during copies; several copies hold it at once. */
void tw_chunks_lock(void);
/* The same without waiting; returns whether the lock is held. */
bool tw_chunks_try_lock(void);
void tw_chunks_unlock(void);
bool tw_chunks_cover_locked(uint64_t address, uint64_t bytes);

/* pool.c: helper threads share a launch's blocks with its runner. Launches run concurrently;
 * helpers prefer the oldest. Blocks are handed out in order, several at a time (a run), or
 * `one_by_one`. */
typedef struct tw_work {
  tessera_kernel_entry entry;
  const tessera_launch_context *launch;
  const uint8_t *parameters;
  uint64_t blocks;
  uint64_t expected_ns; /* from tw_kernel_expected_ns */
  bool one_by_one;
  uint32_t threads; /* how many threads may take part, the calling one included; 0: all */
  /* better code is being compiled: use shorter runs, and leave one helper's CPU to the compiler */
  bool spare;
  const uint32_t *spare_no_more; /* atomic; used if `spare`, and set before tw_pool_do_not_spare */
} tw_work;
/* Each helper calls `at_end` before it ends. */
int tw_pool_start(uint32_t helpers, void (*at_end)(void));
void tw_pool_stop(void);
void tw_pool_run(const tw_work *work);
/* Let all helpers take part in a running launch: it leaves none idle any more. */
void tw_pool_do_not_spare(const tessera_launch_context *launch);

/* fault.c */
typedef struct fault {
  uint32_t kind;
  uint32_t error;
  uint32_t ptx_line;
  uint32_t word; /* of a native trap: the number of its instruction, plus 1 */
  uint64_t kernel;
  uint64_t pc;
  uint64_t address;
  uint64_t block;
  bool shared; /* `address` is a shared address */
  bool local;  /* a local access, whose address is unknown */
  const char *message;
  const tessera_fault_detail *detail; /* NULL: nothing else is known */
} fault;
int tw_fault_install(void);
/* Install an alternate signal stack for the calling thread, because the handler must work after
 * a stack overflow. */
int tw_fault_prepare_thread(void);
void tw_die(const fault *f) __attribute__((noreturn));
/* End the context because memory for the running kernel cannot be allocated. */
static inline __attribute__((noreturn)) void tw_die_out_of_memory(const char *message) {
  tw_die(&(fault){.kind = TESSERA_FAULT_KIND_OUT_OF_MEMORY,
                  .error = CUDA_ERROR_OUT_OF_MEMORY,
                  .kernel = tw_current.kernel,
                  .message = message});
}
/* End the context because of a native kernel's trap or failure. `code` is an address in the code
 * of the kernel, `state` that of the thread; `message` is the failure (NULL: a trap). */
void tw_die_of_trap(uint64_t kernel, uint64_t code, const tessera_thread_state *state,
                    const char *message) __attribute__((noreturn));
bool tw_dead(void);

#endif
