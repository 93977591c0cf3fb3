/* What handles stand for.
 *
 * A handle is an id, never an address: kind, generation and index. Objects live in slabs that are
 * never given back, so a stale handle (double destroy, use after destroy, another kind) finds an
 * object whose generation says no. Locks, in the order in which they may be taken together:
 * tsr_context_lock > tsr_module_lock > context.request_lock > memory lock > ring.lock >
 * context.event_lock. */
#ifndef TSR_OBJECTS_H
#define TSR_OBJECTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "driver_types.h"
#include "slices.h"
#include "modules/table.h"
#include "tessera_abi.h"

enum tsr_kind {
  TSR_CONTEXT = 1,
  TSR_STREAM,
  TSR_EVENT,
  TSR_MODULE,
  TSR_FUNCTION,
  TSR_LIBRARY,
  TSR_KERNEL,
  TSR_LINK,
  TSR_KIND_COUNT,
};

/* Begins every object. The generation is odd while the object lives. */
struct tsr_object {
  _Atomic uint32_t generation;
  uint32_t index;
  struct tsr_object *next_free;
};

/* Returns a zeroed object that no handle reaches yet, or NULL. */
void *tsr_object_new(enum tsr_kind kind);
/* Makes it reachable and returns its handle. */
uint64_t tsr_object_publish(enum tsr_kind kind, void *object);
/* Ends its handle; true for the one caller that ended it. The object stays readable. */
bool tsr_object_retire(enum tsr_kind kind, uint64_t handle);
/* Gives a retired (or never published) object back for reuse. */
void tsr_object_free(enum tsr_kind kind, void *object);
/* Returns the live object, or NULL. */
void *tsr_object_find(enum tsr_kind kind, uint64_t handle);
/* False once it has been retired. */
bool tsr_object_lives(const void *object);
uint64_t tsr_object_handle(enum tsr_kind kind, const void *object);

#define TSR_FIND(type, KIND, handle) \
  ((struct type *)tsr_object_find((KIND), (uint64_t)(uintptr_t)(handle)))

struct tsr_device {
  struct tsr_slice slice;
  uint64_t window; /* offset of its window in the aperture */
  /* The primary context; guarded by tsr_context_lock. */
  uint64_t primary;
  uint32_t primary_users;
  uint32_t primary_flags;
};

/* The client's side of one stream index. Values survive the streams that use the index. */
struct tsr_ring {
  pthread_mutex_t lock;
  uint64_t head;
  _Atomic uint64_t last;     /* value of the last request; the legacy ring reads it unlocked */
  uint64_t legacy_waited;    /* value of the legacy stream that this ring waits for already */
  uint64_t waited_by_legacy; /* under the lock of ring 0 */
};

/* An event's timestamp slot may be reused when the request that wrote it last is done. */
struct tsr_timestamp {
  uint32_t stream;
  uint64_t value;
};

/* Output and heap of the context's kernels (system_area.c). */
struct tsr_system_area {
  pthread_mutex_t making;  /* of what follows, up to `made` */
  uint64_t fifo_bytes, heap_bytes; /* limits */
  _Atomic uint64_t stack_bytes;    /* another one */
  bool made;
  uint64_t address;
  pthread_mutex_t reading; /* no other lock is taken under it */
  uint8_t *alias;          /* NULL: none, or the context has ended */
  uint64_t read;           /* bytes of the FIFO, ever */
};

struct tsr_context {
  struct tsr_object object;
  struct tsr_device *device;
  tessera_client_area *area;
  const tessera_worker_page *page;
  const tessera_fault_detail *detail; /* behind the page; NULL: the worker is older than that */
  /* Writes where an address is beside the program's allocations (fault_place.c), for health.c, which
   * stands below memory. */
  void (*place_fault)(struct tsr_context *context, uint64_t address, char *text, size_t room);
  size_t area_bytes, page_bytes;
  int socket;
  uint32_t index; /* unique among the process's contexts */
  uint32_t api_version;
  uint32_t flags;
  uint64_t id;
  bool primary;
  _Atomic uint32_t lost;         /* CUresult, once the worker is gone without saying why */
  _Atomic uint32_t fault_told;   /* the fault has been logged */
  _Atomic uint64_t hang_told;    /* the launch that was last logged as not ending (hang.c) */
  _Atomic uint32_t order;        /* of the next request, over all streams */
  _Atomic uint32_t rung;         /* the worker's nap (WorkerPage.sleeping) that was rung for last */
  pthread_mutex_t request_lock;  /* of what follows, up to `request` */
  pthread_cond_t answered;       /* somebody's reply has come, or nobody reads any more */
  struct tsr_question *questions; /* threads that wait for a reply */
  bool reading;                  /* one of them reads the socket */
  uint32_t request;
  pthread_mutex_t stream_lock;   /* allocation of stream indices */
  uint64_t streams[2];           /* bitmap: in use */
  _Atomic uint64_t blocking[2];  /* bitmap: takes part in the legacy stream's ordering */
  struct tsr_ring rings[TESSERA_MAX_STREAMS];
  pthread_mutex_t cooperative_lock; /* the last launch whose blocks are resident together */
  tessera_wait cooperative;
  pthread_mutex_t event_lock;    /* timestamps and the records of events */
  struct tsr_timestamp timestamps[TESSERA_MAX_TIMESTAMPS];
  uint16_t free_timestamps[TESSERA_MAX_TIMESTAMPS]; /* a queue: oldest first */
  uint32_t free_first, free_count;
  struct tsr_module *modules; /* under tsr_module_lock */
  struct tsr_system_area system_area;
};

struct tsr_stream {
  struct tsr_object object;
  struct tsr_context *context;
  uint64_t context_handle;
  uint32_t index;
  uint32_t flags;
  int priority;
};

struct tsr_event {
  struct tsr_object object;
  struct tsr_context *context;
  uint64_t context_handle;
  uint32_t flags;
  /* Under context.event_lock; timestamp -1: none. */
  bool recorded;
  uint32_t stream;
  uint64_t value;
  int32_t timestamp;
};

struct tsr_module {
  struct tsr_object object;
  struct tsr_context *context;
  uint64_t context_handle;
  uint64_t remote;           /* the worker's handle */
  struct tsr_module *next;   /* of the same context */
  struct tsr_library *library; /* that owns it, or NULL */
  uint32_t max_registers;      /* of its kernels' threads, where that was asked for; else 0 */
  struct tsr_table table;
  struct tsr_function **functions; /* in the table's order */
  bool *told; /* of each refused record: its reasons have been logged */
};

struct tsr_function {
  struct tsr_object object;
  struct tsr_module *module;
  struct tsr_context *context;
  uint64_t context_handle;
  tessera_function_record record;
  const char *name;                           /* inside the module's table */
  const tessera_parameter_record *parameters; /* inside the module's table */
  _Atomic int dynamic_shared_limit;
  _Atomic uint32_t refused; /* bits: which limits a refused launch has been logged for */
};

struct tsr_library {
  struct tsr_object object;
  uint8_t *image; /* kept: contexts load it when they first use it */
  size_t image_bytes;
  uint32_t max_registers; /* as of a module */
  /* By context index; under tsr_module_lock. */
  struct tsr_module *modules[TESSERA_MAX_CONTEXTS];
  bool loading[TESSERA_MAX_CONTEXTS]; /* a thread makes that module, without the lock */
  uint32_t users;                     /* threads that come back to it; under tsr_module_lock */
  struct tsr_kernel *kernels;
};

struct tsr_kernel {
  struct tsr_object object;
  struct tsr_library *library;
  uint64_t library_handle;
  struct tsr_kernel *next;
  char *name;
  /* Handles of the functions, by context index; read without a lock at launch. */
  _Atomic uint64_t functions[TESSERA_MAX_CONTEXTS];
};

/* What is being linked. `inputs` is what the worker takes (hal/messages.py, LinkFlag). */
struct tsr_link {
  struct tsr_object object;
  uint64_t context_handle;
  struct tsr_log_buffers *logs;
  uint8_t *inputs;
  size_t input_bytes;
  uint8_t *linked; /* the container, once it is complete */
  size_t linked_bytes;
};

#endif
