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
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719
};

typedef enum { ACTIVITY_NONE, ACTIVITY_KERNEL, ACTIVITY_CALLBACK, ACTIVITY_COPY } activity;

/* Threads that run requests, each of them one: of every stream, one that leads and one to spare. */
enum { TW_RUNNERS = TESSERA_MAX_STREAMS + 2 };

/* What this thread does, for the fault handler. */
typedef struct thread_activity {
  volatile activity kind;
  volatile uint64_t kernel;
  const uint8_t *volatile parameters; /* of a native kernel: TESSERA_MAX_PARAMETER_BYTES */
  const tessera_launch_context *volatile launch; /* of a native kernel; while it runs */
  const tw_stacks *volatile stacks;   /* while the groups of a block run; else NULL */
  volatile uint64_t shared_window;    /* base of this thread's shared memory; 0: none yet */
  volatile uint64_t shared_bytes;     /* of a block of the launch that last had some */
  volatile uint64_t local_window;     /* base of the local memory of the block that runs, or 0 */
  uint32_t runner;                    /* which of TW_RUNNERS it is, if it is one */
  tessera_thread_state state;
} thread_activity;

/* A slot after it was copied: nothing in it changes any more. */
typedef struct request {
  tessera_slot slot;
  _Alignas(64) uint8_t parameters[TESSERA_MAX_PARAMETER_BYTES];
} request;

/* One stream as the scheduler sees it. */
typedef struct stream {
  uint64_t tail;       /* slots copied out of the ring */
  uint64_t last_value; /* value of the last request copied */
  uint64_t awaited;    /* head that must be reached before the request is whole; 0: it is */
  bool pending;        /* `next` holds a request that has not been begun */
  bool running;        /* atomic: `next` runs, and is its runner's alone */
  request next;
} stream;

/* Process-wide state. Written before the threads start, but for what says otherwise. */
typedef struct worker {
  tessera_worker_config config;
  const tessera_client_area *client;
  tessera_worker_page *page;
  uint64_t aperture_base;
  uint32_t stopping; /* atomic */
} worker;

extern worker tw;
extern __thread thread_activity tw_current __attribute__((tls_model("initial-exec")));

/* ring.c: true when `s->next` is a whole, valid request. Does not return on a protocol error. */
bool tw_ring_fetch(uint32_t index, stream *s);
bool tw_ring_has_news(uint32_t index, const stream *s);

/* timeline.c. One thread a stream publishes. */
void tw_publish(uint32_t stream_index, uint64_t value);
/* Keeps timelines still from now on; from any thread but inside tw_publish. */
void tw_freeze_timelines(void);
bool tw_timelines_frozen(void);

/* occupancy.c: of the multiprocessors while a launch runs, as shares of TESSERA_WORKER_ALL: how many
 * have a block, and how many of their places for warps are taken. */
typedef struct tw_occupancy {
  uint32_t active, occupied;
} tw_occupancy;
tw_occupancy tw_occupancy_of(const tessera_worker_kernel *kernel, uint64_t blocks,
                             uint32_t block_threads, uint64_t dynamic_bytes);

/* copies.c: which way, by addresses of the aperture. */
void tw_count_copy(uint64_t destination, uint64_t source, uint64_t bytes);
void tw_count_set(uint64_t bytes);
/* When a copy begins that is large enough for its time to count; else 0, and nothing at its end. */
uint64_t tw_copy_begins(uint64_t bytes);
void tw_copy_ends(uint64_t since_ns);
void tw_copies_read(tessera_worker_stats *out);

/* stats.c: of the calling runner's launch. tw_launch_of says what will run, before. It computes from
 * the beginning if `handle` is not 0, else from tw_launch_computes on: what is compiled for it comes
 * before. */
void tw_launch_of(const tessera_worker_kernel *kernel, const tessera_launch_body *body);
void tw_launch_begins(uint64_t handle);
void tw_launch_computes(uint64_t handle);
void tw_launch_ends(uint64_t blocks);

/* leader.c: of all runners one leads, which means that streams are its own. The others run requests
 * or wait. A thread that is to wait for anything but memory passes the lead on before. */
void tw_lead_enter(uint32_t runner); /* before all else */
bool tw_lead_join(void);             /* waits until the calling thread leads; false: the worker stops */
bool tw_leads(void);
/* Before the leader looks at the streams: what ends from now on it will be told of. */
void tw_lead_look(void);
/* Before a request. */
void tw_lead_begin(uint32_t stream);
/* The request that begins will be short: the leader runs it by itself. Another takes the lead where
 * that turns out to be wrong. */
void tw_lead_keep(void);
/* The request that begins, or has begun, takes time: another thread leads if the calling one did. */
void tw_lead_pass(void);
/* After a request, when the client has been told. */
void tw_lead_told(void);
/* After that, when its stream may begin another. Returns whether the calling thread led all the
 * while, so that what it knew of the streams still holds. */
bool tw_lead_after_request(void);
/* Sleeps until the client rings, or for `limit_ns` (0: no limit). Returns false if the calling
 * thread does not lead any more. */
bool tw_lead_sleep(uint32_t how, uint64_t limit_ns);
/* Requests that other threads run. */
uint32_t tw_lead_running_elsewhere(void);
/* `main` is what runners do, `any_news` tells the leader whether a request can begin, or may. */
int tw_runners_start(void *(*main)(void *index), bool (*any_news)(void));
void tw_runners_stop(void);

/* scheduler.c */
int tw_scheduler_start(void);

/* execute.c: runs a request to its end. */
bool tw_expect_short(const request *r);
void tw_execute(request *r);
/* observe.c: tells the observer of a request; returns whether that was all there was to do. */
bool tw_observe(uint32_t stream, const request *r);
/* Reports a launch that has run; what waits for it cannot begin before. */
void tw_observe_end(uint32_t stream, const request *r);
/* Before the first of them. */
void tw_timer_begin(void);

/* kernels.c. A kernel stays where it is between acquire and release, which only runners call, each
 * for one kernel at a time. */
const tessera_worker_kernel *tw_kernel_acquire(uint64_t handle);
void tw_kernel_release(void);

/* Between acquire and release. A kernel whose parameters have addresses has one image of them: its
 * launches run one at a time. */
void tw_kernel_lock_image(uint64_t handle);
void tw_kernel_unlock_image(uint64_t handle);
/* The code for a launch's kernel and block. One in provisional code is known here, so that it is
 * told of better code, until tw_launch_settled, which the same runner calls. */
bool tw_variant_find(tw_launch *launch);
/* Keeps the code of a launch for others, or gives it better code that has come meanwhile. */
void tw_variant_add(tw_launch *launch);
/* Give better code to the launches that run in provisional code of that kernel, and to later ones.
 * Returns how many run; `running` gets their contexts. */
uint32_t tw_variant_replace(const tessera_worker_call *better,
                            const tessera_launch_context *running[TW_RUNNERS]);
void tw_launch_settled(void);
/* A launch of the kernel has ended. */
void tw_kernel_account(uint64_t handle, uint64_t blocks, uint64_t busy_ns);
/* How long a launch of so many blocks will take, judging by those before; UINT64_MAX: unknown. */
uint64_t tw_kernel_expected_ns(uint64_t handle, uint64_t blocks);
void tw_kernel_expect_nothing(uint64_t handle);
/* Name of a kernel that is being run, for the fault record. */
void tw_kernel_name(uint64_t handle, char *name, uint64_t size);

/* chunks.c: the lock, which many copies hold at once, keeps chunks mapped while they run. */
void tw_chunks_lock(void);
void tw_chunks_unlock(void);
bool tw_chunks_cover_locked(uint64_t address, uint64_t bytes);

/* pool.c: threads that help whoever launches; launches run side by side, the oldest first. Blocks of
 * one are handed out in their order, in runs of some, or `one_by_one`. */
typedef struct tw_work {
  tessera_kernel_entry entry;
  const tessera_launch_context *launch;
  const uint8_t *parameters;
  uint64_t blocks;
  uint64_t expected_ns; /* tw_kernel_expected_ns */
  bool one_by_one;
  bool spare; /* better code is being compiled: shorter runs, and one thread leaves it its CPU */
  const uint32_t *spare_no_more; /* atomic; where `spare`: set before tw_pool_do_not_spare */
} tw_work;
/* Each helper calls `at_end` before it ends. */
int tw_pool_start(uint32_t helpers, void (*at_end)(void));
void tw_pool_stop(void);
void tw_pool_run(const tw_work *work);
/* A launch that runs spares nobody any more. */
void tw_pool_do_not_spare(const tessera_launch_context *launch);

/* fault.c */
typedef struct fault {
  uint32_t kind;
  uint32_t error;
  uint32_t ptx_line;
  uint32_t word; /* of a native trap: its instruction's number, plus 1 */
  uint64_t kernel;
  uint64_t pc;
  uint64_t address;
  uint64_t block;
  bool shared; /* `address` is one of shared memory */
  bool local;  /* it was one of local memory; which one is not known */
  const char *message;
  const tessera_fault_detail *detail; /* NULL: nothing more is known */
} fault;
int tw_fault_install(void);
/* An alternate stack for the calling thread; the handler must work after a stack overflow. */
int tw_fault_prepare_thread(void);
void tw_die(const fault *f) __attribute__((noreturn));
/* What the running kernel needs of memory is not there. */
static inline __attribute__((noreturn)) void tw_die_out_of_memory(const char *message) {
  tw_die(&(fault){.kind = TESSERA_FAULT_KIND_OUT_OF_MEMORY,
                  .error = CUDA_ERROR_OUT_OF_MEMORY,
                  .kernel = tw_current.kernel,
                  .message = message});
}
/* `code` is an address within the code of the kernel whose trap is in `state`; `message` says what
 * else it was (NULL: a trap). */
void tw_die_of_trap(uint64_t kernel, uint64_t code, const tessera_thread_state *state,
                    const char *message) __attribute__((noreturn));
bool tw_dead(void);

#endif
