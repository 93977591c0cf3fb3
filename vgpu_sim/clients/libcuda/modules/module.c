#define _GNU_SOURCE
#include "modules/module.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/aperture.h"
#include "base/environment.h"
#include "contexts/context.h"
#include "modules/function.h"
#include "log.h"
#include "exchange/ring.h"
#include "memory/system_area.h"
#include "modules/launch_buffer.h"
#include "modules/managed.h"
#include "exchange/wait.h"
#include "exchange/request.h"

/* Create a descriptor with the image, or return -1. */
int tsr_memory_file(const void *image, size_t bytes) {
  const int fd = (int)syscall(SYS_memfd_create, "tessera-image", 1u /* MFD_CLOEXEC */);
  if (fd < 0) return -1;
  const char *from = image;
  for (size_t left = bytes; left > 0;) {
    const ssize_t written = write(fd, from, left);
    if (written <= 0) {
      close(fd);
      return -1;
    }
    from += written;
    left -= (size_t)written;
  }
  return fd;
}

/* Take over what the record of a function states. */
static void set_record(struct tsr_function *function, const struct tsr_table *table,
                       uint32_t index) {
  const uint32_t most = function->module->max_registers;
  function->record = table->functions[index];
  if (most && function->record.registers > most) function->record.registers = most;
  function->parameters = table->parameters + function->record.parameter_first;
  function->title = tsr_table_title(table, index);
  function->dynamic_shared_limit =
      tsr_function_shared_limit(function, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
}

static CUresult adopt(struct tsr_module *module) {
  const struct tsr_table *table = &module->table;
  const uint32_t count = table->header->function_count;
  const uint32_t refused = table->header->refused_count;
  module->functions = calloc(count ? count : 1, sizeof(struct tsr_function *));
  module->reported = calloc(refused ? refused : 1, sizeof(bool));
  if (!module->functions || !module->reported) return CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    struct tsr_function *function = tsr_object_new(TSR_FUNCTION);
    if (!function) return CUDA_ERROR_OUT_OF_MEMORY;
    function->module = module;
    function->context = module->context;
    function->context_handle = module->context_handle;
    set_record(function, table, i);
    function->name = (const char *)table->data + function->record.name_offset;
    module->functions[i] = function;
    tsr_object_publish(TSR_FUNCTION, function);
  }
  return CUDA_SUCCESS;
}

/* Print the log's first lines, for users who have passed no buffer, and the number of lines
 * left. */
void tsr_log_lines(const char *log, size_t bytes) {
  enum { MAX_LINES = 8 };
  unsigned lines = 0;
  while (bytes > 0) {
    const char *end = memchr(log, '\n', bytes);
    const size_t length = end ? (size_t)(end - log) : bytes;
    if (length > 0 && ++lines <= MAX_LINES) tsr_log("  %.*s", (int)length, log);
    const size_t used = end ? length + 1 : length;
    bytes -= used;
    log += used;
  }
  if (lines > MAX_LINES)
    tsr_log("  and %u more lines: `tessera ptx check` shows all, as the buffers of CU_JIT_..._LOG_BUFFER do",
            lines - MAX_LINES);
}

static CUresult ask(struct tsr_context *context, const void *image, size_t bytes,
                    const struct tsr_log_buffers *logs, tessera_module_table *loaded,
                    struct tsr_table *table) {
  const int fd = tsr_memory_file(image, bytes);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  struct tsr_reply reply;
  const tessera_module_load load = {.image_bytes = bytes,
                                    .flags = tsr_loads_lazily() ? TESSERA_LOAD_FLAG_LAZY : 0,
                                    .log_bytes = (uint32_t)logs->error_bytes};
  CUresult result =
      tsr_ask(context, TESSERA_MESSAGE_TYPE_MODULE_LOAD, &load, sizeof load, fd, &reply);
  close(fd);
  const bool answered = reply.fds[0] >= 0 && reply.payload_bytes == sizeof *loaded;
  if (answered) memcpy(loaded, reply.payload, sizeof *loaded);
  if (!answered || !tsr_table_read(table, reply.fds[0], loaded->table_bytes)) {
    table->data = NULL;
    if (result == CUDA_SUCCESS) result = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    tsr_log_buffers_fill(logs, result, NULL, 0);
  } else {
    tsr_log_buffers_fill(logs, result, table->log, table->log_bytes);
    if (result != CUDA_SUCCESS) {
      tsr_log("module not loaded (CUDA error %d)", (int)result);
      tsr_log_lines(table->log, table->log_bytes);
    }
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) tsr_image_refused();
  }
  tsr_reply_close(&reply);
  return result;
}

/* Free a module without functions. */
static void discard(struct tsr_module *module) {
  free(module->managed);
  free(module->table.data);
  module->managed = NULL;
  module->managed_count = 0;
  module->table.data = NULL;
  tsr_object_free(TSR_MODULE, module);
}

void tsr_module_abandon(struct tsr_module *module) {
  tsr_managed_release(module->managed, module->managed_count);
  struct tsr_reply reply;
  const tessera_handle remote = {.handle = module->remote};
  tsr_ask(module->context, TESSERA_MESSAGE_TYPE_MODULE_UNLOAD, &remote, sizeof remote, -1, &reply);
  tsr_reply_close(&reply);
  discard(module);
}

CUresult tsr_module_fetch(struct tsr_context *context, const void *image, size_t bytes,
                          const struct tsr_log_buffers *logs, struct tsr_module **out) {
  const uint64_t context_handle = tsr_object_handle(TSR_CONTEXT, context);
  struct tsr_module *module = tsr_object_new(TSR_MODULE);
  if (!module) return CUDA_ERROR_OUT_OF_MEMORY;
  tessera_module_table loaded;
  CUresult result = ask(context, image, bytes, logs, &loaded, &module->table);
  if (result != CUDA_SUCCESS) {
    discard(module);
    return result;
  }
  module->context = context;
  module->context_handle = context_handle;
  module->remote = loaded.module;
  module->max_registers = logs->max_registers;
  CUdeviceptr area;
  if (tsr_module_variable(module, "tessera.area", &area, NULL) == CUDA_SUCCESS)
    result = tsr_system_area_tell(context, area);
  CUdeviceptr launches;
  if (result == CUDA_SUCCESS &&
      tsr_module_variable(module, "tessera.launches", &launches, NULL) == CUDA_SUCCESS)
    result = tsr_launch_buffer_tell(context, launches);
  module->launches_graphs =
      tsr_module_variable(module, "tessera.launches_graphs", &launches, NULL) == CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) result = tsr_managed_place(module);
  if (result == CUDA_SUCCESS)
    *out = module;
  else
    tsr_module_abandon(module);
  return result;
}

CUresult tsr_module_adopt(struct tsr_module *module) {
  struct tsr_context *context = module->context;
  /* The context may have been destroyed meanwhile, with everything in it. */
  if (TSR_FIND(tsr_context, TSR_CONTEXT, module->context_handle) != context) {
    discard(module);
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  module->next = context->modules;
  context->modules = module;
  const uint64_t handle = tsr_object_publish(TSR_MODULE, module);
  const CUresult result = adopt(module);
  if (result != CUDA_SUCCESS) {
    tsr_object_retire(TSR_MODULE, handle);
    tsr_module_drop(module);
  }
  return result;
}

static void forget(struct tsr_module *module) {
  const uint32_t count = module->functions ? module->table.header->function_count : 0;
  for (uint32_t i = 0; i < count && module->functions[i]; i++)
    tsr_object_retire(TSR_FUNCTION, tsr_object_handle(TSR_FUNCTION, module->functions[i]));
  /* A launch that has found a function before it was retired holds a ring's lock. */
  tsr_ring_quiesce(module->context);
  for (uint32_t i = 0; i < count && module->functions[i]; i++) {
    free(module->functions[i]->old_launch);
    free(module->functions[i]->table.data);
    module->functions[i]->table.data = NULL;
    tsr_object_free(TSR_FUNCTION, module->functions[i]);
  }
  free(module->functions);
  free(module->reported);
  module->functions = NULL;
  module->reported = NULL;
  discard(module);
}

CUresult tsr_module_drop(struct tsr_module *module) {
  struct tsr_context *context = module->context;
  struct tsr_module **link = &context->modules;
  while (*link && *link != module) link = &(*link)->next;
  if (*link) *link = module->next;
  const tessera_handle remote = {.handle = module->remote};
  uint64_t *const managed = module->managed;
  const uint32_t managed_count = module->managed_count;
  module->managed = NULL;
  forget(module);
  CUresult result = tsr_wait_all(context); /* its kernels may still run */
  if (result == CUDA_SUCCESS) tsr_managed_release(managed, managed_count);
  free(managed);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_reply reply;
  result = tsr_ask(context, TESSERA_MESSAGE_TYPE_MODULE_UNLOAD, &remote, sizeof remote, -1, &reply);
  tsr_reply_close(&reply);
  return result;
}

void tsr_modules_drop(struct tsr_context *context) {
  pthread_mutex_lock(&tsr_module_lock);
  while (context->modules) {
    struct tsr_module *module = context->modules;
    context->modules = module->next;
    if (module->library) module->library->modules[context->index] = NULL;
    tsr_object_retire(TSR_MODULE, tsr_object_handle(TSR_MODULE, module));
    forget(module);
  }
  pthread_mutex_unlock(&tsr_module_lock);
}

/* Return the title of a refused kernel, or the name of a variable. */
static const char *refused_title(const struct tsr_table *table,
                                 const tessera_refused_record *refused) {
  const uint32_t offset = refused->title_offset ? refused->title_offset : refused->name_offset;
  return (const char *)table->data + offset;
}

/* Return the error for a refused name; log the reasons once. */
static CUresult refuse(const struct tsr_table *table, const tessera_refused_record *refused,
                       bool *reported) {
  if (!*reported) {
    *reported = true;
    const char *log = (const char *)table->data + refused->log_offset;
    tsr_log("%s %s cannot be used yet (CUDA error %d)", refused->is_kernel ? "kernel" : "variable",
            refused_title(table, refused), (int)CUDA_ERROR_NOT_SUPPORTED);
    tsr_log_lines(log, strlen(log));
  }
  tsr_image_refused();
  return CUDA_ERROR_NOT_SUPPORTED;
}

/* Return the error for a name that is not among the usable names. */
static CUresult missing(const struct tsr_module *module, const char *name, bool is_kernel) {
  const struct tsr_table *table = &module->table;
  for (uint32_t i = 0; i < table->header->refused_count; i++) {
    const tessera_refused_record *refused = &table->refused[i];
    if (!refused->is_kernel == is_kernel) continue;
    if (strcmp((const char *)table->data + refused->name_offset, name) == 0)
      return refuse(table, refused, &module->reported[i]);
  }
  return CUDA_ERROR_NOT_FOUND;
}

/* Have the worker compile a function of a lazy module. The module lock is released meanwhile. */
static CUresult ask_for_function(struct tsr_module *module, uint32_t index,
                                 struct tsr_table *table) {
  struct tsr_reply reply;
  const tessera_module_kernel kernel = {.module = module->remote, .index = index};
  tessera_module_table answer;
  struct tsr_context *context = module->context;
  pthread_mutex_unlock(&tsr_module_lock);
  CUresult result =
      tsr_ask(context, TESSERA_MESSAGE_TYPE_MODULE_KERNEL, &kernel, sizeof kernel, -1, &reply);
  const bool answered = reply.fds[0] >= 0 && reply.payload_bytes == sizeof answer;
  if (answered) memcpy(&answer, reply.payload, sizeof answer);
  if (!answered || !tsr_table_read(table, reply.fds[0], answer.table_bytes)) {
    *table = (struct tsr_table){0};
    if (result == CUDA_SUCCESS) result = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  }
  tsr_reply_close(&reply);
  pthread_mutex_lock(&tsr_module_lock);
  return result;
}

/* Load a function of a lazy module, unless that was done. The module lock may be released
 * meanwhile: if the module does not exist afterwards, the result is CUDA_ERROR_INVALID_HANDLE. */
static CUresult load_function(struct tsr_module *module, uint32_t index) {
  struct tsr_function *function = module->functions[index];
  const uint64_t handle = tsr_object_handle(TSR_MODULE, module);
  if (function->record.kernel) return CUDA_SUCCESS;
  if (!function->table.data) {
    struct tsr_table table;
    const CUresult result = ask_for_function(module, index, &table);
    if (TSR_FIND(tsr_module, TSR_MODULE, handle) != module) {
      free(table.data);
      return CUDA_ERROR_INVALID_HANDLE;
    }
    if (result != CUDA_SUCCESS) {
      const bool has_title = table.data && table.header->refused_count;
      tsr_log("kernel %s not loaded (CUDA error %d)",
              has_title ? refused_title(&table, &table.refused[0]) : function->title, (int)result);
      if (table.data) tsr_log_lines(table.log, table.log_bytes);
      if (result != CUDA_ERROR_OUT_OF_MEMORY) tsr_image_refused();
      free(table.data);
      return result;
    }
    if (function->table.data) /* another thread was faster */
      free(table.data);
    else
      function->table = table;
    if (function->table.header->function_count == 1) set_record(function, &function->table, 0);
  }
  if (function->record.kernel) return CUDA_SUCCESS;
  if (function->table.header->refused_count == 0) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  return refuse(&function->table, &function->table.refused[0], &function->reported);
}

CUresult tsr_module_load_all(struct tsr_module *module) {
  const uint32_t count = module->table.header->function_count;
  for (uint32_t i = 0; i < count; i++) {
    const CUresult result = load_function(module, i);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_SUPPORTED) return result;
  }
  return CUDA_SUCCESS;
}

uint32_t tsr_module_usable(const struct tsr_module *module, struct tsr_function **functions,
                           uint32_t room) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < module->table.header->function_count; i++) {
    if (!module->functions[i]->record.kernel) continue;
    if (count < room) functions[count] = module->functions[i];
    count++;
  }
  return count;
}

CUresult tsr_module_function(struct tsr_module *module, const char *name,
                             struct tsr_function **function) {
  for (uint32_t i = 0; i < module->table.header->function_count; i++) {
    if (strcmp(module->functions[i]->name, name) != 0) continue;
    *function = module->functions[i];
    return load_function(module, i);
  }
  return missing(module, name, true);
}

/* Whether a variable is one that the compiler has added to describe others. */
static bool is_added(const char *name) {
  static const char *const prefixes[] = {"tessera.managed.", "tessera.reads.", "tessera.surfref.",
                                         "tessera.texref."};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}

CUresult tsr_module_variable(const struct tsr_module *module, const char *name,
                             CUdeviceptr *address, size_t *bytes) {
  const tessera_variable_record *variable =
      is_added(name) ? NULL : tsr_table_variable(&module->table, name);
  if (!variable) return missing(module, name, false);
  if (address) *address = variable->address;
  if (bytes) *bytes = variable->bytes;
  return CUDA_SUCCESS;
}

static bool find_in(struct tsr_context *context, uint64_t address, struct tsr_span *span) {
  for (const struct tsr_module *module = context->modules; module; module = module->next) {
    for (uint32_t i = 0; i < module->table.header->variable_count; i++) {
      const tessera_variable_record *variable = &module->table.variables[i];
      if (address - variable->address >= variable->bytes) continue;
      *span = (struct tsr_span){.context = context,
                                .kind = TSR_SPAN_VARIABLE,
                                .address = variable->address,
                                .bytes = variable->bytes,
                                .id = variable->address};
      return true;
    }
  }
  return false;
}

/* The segments of module variables are far from all chunks, so most addresses are rejected at
 * once. */
bool tsr_variable_find(uint64_t address, struct tsr_span *span) {
  if (!tsr_aperture_holds(address)) return false;
  const uint64_t offset = (address - tsr_aperture_base) % TESSERA_GPU_WINDOW_BYTES;
  if (offset - TESSERA_MODULE_OFFSET >= TESSERA_MAX_CONTEXTS * TESSERA_MODULE_BYTES_PER_CONTEXT)
    return false;
  CUresult why;
  struct tsr_context *context = tsr_context_current_any(&why);
  if (!context) return false;
  pthread_mutex_lock(&tsr_module_lock);
  const bool found = find_in(context, address, span);
  pthread_mutex_unlock(&tsr_module_lock);
  return found;
}
