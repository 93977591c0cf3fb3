/* The objects to which handles refer.
 *
 * A handle is an id, never an address: kind, generation and index. Objects are in slabs that are
 * never freed, so a stale handle (double destroy, use after destroy, another kind) leads to an
 * object with a different generation. Lock order:
 * tsr_context_lock > lock of references > tsr_module_lock > pool lock > view lock > context.request_lock >
 * memory lock > ring.lock > context.event_lock. */
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
  TSR_GRAPH,
  TSR_NODE,
  TSR_GRAPH_EXEC,
  TSR_USER_OBJECT,
  TSR_POOL,
  TSR_PHYSICAL,
  TSR_ARRAY,
  TSR_MIPMAP,
  TSR_GREEN, /* also found as the context of which it is a part */
  TSR_REFERENCE,
  TSR_EXTERNAL,
  TSR_KIND_COUNT,
};

/* First member of every object. The generation is odd while the object is alive. */
struct tsr_object {
  _Atomic uint32_t generation;
  uint32_t index;
  struct tsr_object *next_free;
};

/* Return a zeroed object that has no handle yet, or NULL. */
void *tsr_object_new(enum tsr_kind kind);
/* Publish an object and return its handle. */
uint64_t tsr_object_publish(enum tsr_kind kind, void *object);
/* Invalidate a handle; true for the one caller that did so. The object stays readable. */
bool tsr_object_retire(enum tsr_kind kind, uint64_t handle);
/* Free a retired (or never published) object for reuse. */
void tsr_object_free(enum tsr_kind kind, void *object);
/* Return the live object, or NULL. */
void *tsr_object_find(enum tsr_kind kind, uint64_t handle);
/* Whether the object has not been retired yet. */
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
  bool primary_kept; /* without users, until its memory of cuMemCreate is freed */
};

/* The client's state of one stream index. Values survive the streams that use the index. */
struct tsr_ring {
  pthread_mutex_t lock;
  uint64_t head;
  _Atomic uint64_t last;     /* value of the last request; the legacy ring reads it unlocked */
  uint64_t legacy_waited;    /* value of the legacy stream for which this ring already waits */
  uint64_t waited_by_legacy; /* guarded by the lock of ring 0 */
};

/* The request that last writes an event's timestamp slot; when it is done, the slot may be
 * reused. */
struct tsr_timestamp {
  uint32_t stream;
  uint64_t value;
};

/* Output and heap of the context's kernels (system_area.c). */
struct tsr_system_area {
  pthread_mutex_t making;  /* guards the fields up to `launch_buffer` */
  uint64_t fifo_bytes, heap_bytes; /* limits */
  _Atomic uint64_t stack_bytes;    /* another limit: of the stack */
  bool made;
  uint64_t address;
  uint64_t pending_launches; /* a limit: of launches by kernels (modules/launch_buffer.c) */
  uint64_t launch_buffer;    /* its address, or 0 */
  pthread_mutex_t reading; /* the innermost lock */
  uint8_t *alias;          /* NULL: there is none, or the context has ended */
  uint64_t read;           /* bytes read from the FIFO, in total */
};

/* Branches of a graph that run in parallel: in the stream of the launch, and in rings that all
 * graphs of a context share. */
enum { TSR_GRAPH_LANES = 4, TSR_GRAPH_RINGS = 9 };
/* The least one is 0. PyTorch makes 32 streams for each of up to four priorities, and a context has
 * TESSERA_MAX_STREAMS. */
enum { TSR_GREATEST_PRIORITY = -2 };

/* A set of streams of a context that is recorded and waits as a whole: all of them (group 0), or
 * those of a green context (streams/group.h). */
enum { TSR_GROUPS = 17 };

struct tsr_group {
  bool used;
  bool has_ring;
  uint32_t ring;       /* for the requests that join the streams */
  uint64_t barrier;    /* value of that ring for which new streams wait */
  uint32_t multiprocessors; /* that its kernels may use; 0: all */
};

struct tsr_graph_lane {
  uint32_t ring;
  uint32_t stream; /* of the last launch */
  bool taken;      /* a thread enqueues a launch */
};

/* Descriptors of destroyed textures and surfaces (textures/retired.c). */
struct tsr_retired_list {
  struct tsr_retired *waiting;        /* not marked yet */
  struct tsr_retired *marked;
  uint64_t mark[TESSERA_MAX_STREAMS]; /* requests that may read the marked ones */
  _Atomic uint32_t count;             /* of both */
};

struct tsr_context {
  struct tsr_object object;
  struct tsr_device *device;
  tessera_client_area *area;
  const tessera_worker_page *page;
  const tessera_fault_detail *detail; /* in the page; NULL: the worker is too old to report it */
  /* Function that describes an address relative to the program's allocations (fault_place.c). It
   * is called by pointer, because health.c must not depend on the memory code. */
  void (*place_fault)(struct tsr_context *context, uint64_t address, char *text, size_t room);
  /* Function that releases what pools and destroyed textures need not keep, after a thread has
   * waited for a stream, an event or the context; called by pointer for the same reason. */
  void (*synchronized)(struct tsr_context *context);
  size_t area_bytes, page_bytes;
  int socket;
  uint32_t index; /* unique among the process's contexts */
  uint32_t api_version;
  uint32_t flags;
  uint64_t id;
  bool primary;
  _Atomic uint32_t lost;         /* CUresult, once the worker has ended without a fault record */
  _Atomic uint32_t fault_reported;   /* the fault has been logged */
  _Atomic uint64_t hang_reported;    /* the last launch that was logged as hanging (hang.c) */
  _Atomic uint32_t order;        /* number of the next request, over all streams */
  /* the worker's nap (WorkerPage.sleeping) for which the client has rung last */
  _Atomic uint32_t rung;
  pthread_mutex_t request_lock;  /* guards the fields up to `request` */
  pthread_cond_t answered;       /* a reply has arrived, or no thread reads any more */
  struct tsr_question *questions; /* threads that wait for a reply */
  bool reading;                  /* one of them reads the socket */
  uint32_t request;
  pthread_mutex_t stream_lock;   /* guards the allocation of stream indices */
  uint64_t streams[2];           /* bitmap: in use */
  _Atomic uint64_t blocking[2];  /* bitmap: takes part in the ordering with the legacy stream */
  struct tsr_ring rings[TESSERA_MAX_STREAMS + 1]; /* the last one stands for lists (exchange/list.h) */
  pthread_mutex_t cooperative_lock; /* guards the last cooperative launch */
  tessera_wait cooperative;
  pthread_mutex_t event_lock;    /* guards timestamps and events' records */
  struct tsr_timestamp timestamps[TESSERA_MAX_TIMESTAMPS];
  uint16_t free_timestamps[TESSERA_MAX_TIMESTAMPS]; /* a queue: oldest first */
  uint32_t free_first, free_count;
  pthread_mutex_t host_queue_lock; /* guards the creation of the host queue */
  struct tsr_host_queue *_Atomic host_queue; /* host functions; NULL: there were none yet */
  /* Streams that capture (nodes/capture.c). The pointers are guarded by the graphs' lock. */
  struct tsr_capture *captures[TESSERA_MAX_STREAMS];
  _Atomic bool capturing[TESSERA_MAX_STREAMS];       /* the pointer is not NULL */
  _Atomic bool capture_misused[TESSERA_MAX_STREAMS]; /* work was refused: the capture is invalid */
  _Atomic uint32_t blocking_captures; /* blocking streams that capture */
  pthread_mutex_t graph_lane_lock;    /* guards the fields below */
  struct tsr_graph_lane graph_lanes[TSR_GRAPH_RINGS]; /* for graphs' side branches */
  uint32_t graph_lane_count;
  _Atomic uint32_t cache_config, shared_config; /* preferences, which have no effect */
  _Atomic uint8_t synchronization[TESSERA_MAX_STREAMS]; /* CUsynchronizationPolicy; 0: default */
  _Atomic int8_t priority[TESSERA_MAX_STREAMS];
  pthread_mutex_t group_lock; /* guards the groups; before the rings' locks */
  struct tsr_group groups[TSR_GROUPS];
  _Atomic uint8_t group[TESSERA_MAX_STREAMS]; /* of each ring */
  uint32_t attached; /* further users, of cuCtxAttach; guarded by tsr_context_lock */
  struct tsr_module *modules; /* guarded by tsr_module_lock */
  struct tsr_system_area system_area;
  struct tsr_retired_list retired;
  /* A texture reference of one of its modules was changed since a launch: bind it before the next
   * launch of a kernel that reads it (textures/reference.h). By pointer, because launches call no room
   * that is above them. */
  _Atomic bool references_changed;
  CUresult (*bind_references)(struct tsr_context *context, uint64_t function);
};

struct tsr_stream {
  struct tsr_object object;
  struct tsr_context *context;
  uint64_t context_handle;
  uint32_t index;
  uint32_t flags;
  uint64_t green; /* handle of its green context, or 0 */
};

/* A green context: a part of a primary context's multiprocessors, and streams that use it. */
struct tsr_green {
  struct tsr_object object;
  struct tsr_context *context;
  uint64_t context_handle;
  CUdevice device;
  uint32_t group;
  uint64_t stream; /* handle of its default stream */
  uint64_t id;
  CUdevResource sm, workqueue;
};

/* An edge of a graph to a node, and a growing list of them (nodes/graph.h). */
struct tsr_node;
struct tsr_edge {
  struct tsr_node *node;
  CUgraphEdgeData data;
};
struct tsr_edges {
  struct tsr_edge *list;
  uint32_t count, room;
};

/* The capture of an event: the last nodes of its stream when it was recorded. */
struct tsr_captured_event {
  _Atomic uint64_t sequence; /* 0: the event was not recorded in a capture */
  struct tsr_edges tips;     /* guarded by the graphs' lock */
};

struct tsr_event {
  struct tsr_object object;
  struct tsr_captured_event captured;
  struct tsr_context *context;
  uint64_t context_handle;
  uint32_t flags;
  /* The fields below are guarded by context.event_lock; timestamp -1: none. */
  bool recorded;
  uint32_t stream;
  uint64_t value;
  int32_t timestamp;
  struct tsr_shared_event *shared; /* of an interprocess event (streams/shared_event.c), else NULL */
};

struct tsr_module {
  struct tsr_object object;
  struct tsr_context *context;
  uint64_t context_handle;
  uint64_t remote;           /* the worker's handle */
  struct tsr_module *next;   /* module of the same context */
  struct tsr_library *library; /* the owning library, or NULL */
  uint32_t max_registers;      /* limit of registers per thread, if requested; else 0 */
  bool launches_graphs;        /* its kernels may */
  struct tsr_table table;
  uint64_t *managed; /* addresses of its managed variables: modules/managed.h */
  uint32_t managed_count;
  struct tsr_function **functions; /* in the table's order */
  bool *reported; /* for each refused record: its reasons have been logged */
};

struct tsr_function {
  struct tsr_object object;
  struct tsr_module *module;
  struct tsr_context *context;
  uint64_t context_handle;
  tessera_function_record record;
  const char *name;                           /* inside the module's table */
  const char *title;                          /* for messages; inside a table */
  const tessera_parameter_record *parameters; /* inside a table */
  struct tsr_table table; /* of this function alone, if its module is lazy and it was looked up */
  bool reported;          /* the reasons why it is refused have been logged */
  _Atomic int dynamic_shared_limit;
  _Atomic uint32_t cluster[3]; /* attributes that the program has set; 0: none */
  _Atomic bool non_portable_cluster;
  _Atomic int cluster_policy;
  struct tsr_old_launch *old_launch; /* old_launch.c; NULL: not used; guarded by tsr_module_lock */
  _Atomic uint32_t refused; /* bits: limits for which a refused launch has been logged */
};

struct tsr_library {
  struct tsr_object object;
  uint8_t *image; /* kept, because contexts load it when they first use it */
  size_t image_bytes;
  uint32_t max_registers; /* as in tsr_module */
  /* By context index; guarded by tsr_module_lock. */
  struct tsr_module *modules[TESSERA_MAX_CONTEXTS];
  bool loading[TESSERA_MAX_CONTEXTS]; /* a thread is loading that module, without the lock */
  /* threads that will continue to use the library; guarded by tsr_module_lock */
  uint32_t users;
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

/* A memory pool (memory/pool.c); the fields below `object` are guarded by the pool lock. */
struct tsr_pool {
  struct tsr_object object;
  struct tsr_pool *next;
  uint64_t handle;
  CUmemPoolProps props;
  int device; /* ordinal; -1: a pool of host memory */
  bool destroyed, is_default, is_current;
  _Atomic uint32_t peers; /* other devices that access the memory, as bits by ordinal */
  bool imported; /* from another process: it has only allocations of that process */
  uint64_t shared_tag;                                 /* of a pool with a name, else 0 */
  unsigned char shared_name[sizeof(tessera_shared_memory)]; /* of an exported pool */
  uint64_t reuse[3]; /* by CU_MEMPOOL_ATTR_REUSE_..., from FOLLOW_EVENT_DEPENDENCIES on */
  uint64_t release_threshold;
  uint64_t used_bytes, used_high_bytes, reserved_bytes, reserved_high_bytes;
  struct tsr_block *free_blocks; /* the latest first */
  uint64_t block_count; /* allocated and free ones */
};

/* Memory of cuMemCreate (memory/physical.c); guarded by the view lock. */
struct tsr_physical {
  struct tsr_object object;
  struct tsr_context *context; /* NULL: the context has ended, and with it the memory */
  uint64_t handle;             /* valid while there are handles */
  CUmemAllocationProp props;
  uint64_t offset, bytes; /* its chunk */
  uint8_t *alias;
  uint64_t handles, mappings;
  bool imported; /* from another process */
};

/* External memory (stream_memory/external.c). */
struct tsr_external {
  struct tsr_object object;
  uint64_t physical; /* handle of the memory of cuMemCreate */
  uint64_t bytes;
};

/* A link in progress. `inputs` is the worker's input format (hal/messages.py, LinkFlag). */
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
