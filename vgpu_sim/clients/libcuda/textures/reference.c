#include "textures/reference.h"

#include <stdio.h>
#include <string.h>

#include "base/hooks.h"
#include "copies/copy.h"
#include "exchange/wait.h"
#include "log.h"
#include "modules/function.h"
#include "modules/module.h"
#include "textures/object.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all references */
static struct tsr_reference *references; /* of modules */

struct tsr_reference *tsr_reference_new(enum tsr_descriptor_kind kind) {
  struct tsr_reference *made = tsr_object_new(TSR_REFERENCE);
  if (!made) return NULL;
  made->kind = kind;
  made->format = CU_AD_FORMAT_FLOAT;
  made->channels = 1;
  return made;
}

static struct tsr_reference *acquire(uint64_t handle, enum tsr_descriptor_kind kind) {
  pthread_mutex_lock(&lock);
  struct tsr_reference *found = TSR_FIND(tsr_reference, TSR_REFERENCE, handle);
  if (found && found->kind == kind &&
      (!found->context || TSR_FIND(tsr_module, TSR_MODULE, found->module)))
    return found;
  pthread_mutex_unlock(&lock);
  return NULL;
}

struct tsr_reference *tsr_texture_reference_acquire(CUtexref handle) {
  return acquire((uint64_t)(uintptr_t)handle, TSR_DESCRIPTOR_TEXTURE);
}

struct tsr_reference *tsr_surface_reference_acquire(CUsurfref handle) {
  return acquire((uint64_t)(uintptr_t)handle, TSR_DESCRIPTOR_SURFACE);
}

CUresult tsr_reference_release(void) {
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

/* Free the references of modules that were unloaded, and of contexts that have ended. */
static void sweep_locked(void) {
  for (struct tsr_reference **place = &references; *place;) {
    struct tsr_reference *one = *place;
    if (TSR_FIND(tsr_module, TSR_MODULE, one->module)) {
      place = &one->next;
      continue;
    }
    *place = one->next;
    if (one->bound && TSR_FIND(tsr_context, TSR_CONTEXT, one->context_handle))
      tsr_texture_destroy(one->bound, one->kind);
    tsr_object_retire(TSR_REFERENCE, one->handle);
    tsr_object_free(TSR_REFERENCE, one);
  }
}

static void sweep(struct tsr_context *context) {
  (void)context;
  pthread_mutex_lock(&lock);
  sweep_locked();
  pthread_mutex_unlock(&lock);
}

static CUresult describe(struct tsr_reference *one, struct tsr_descriptor *descriptor) {
  if (one->kind == TSR_DESCRIPTOR_SURFACE)
    return tsr_describe_surface_resource(one->context, &one->resource, descriptor);
  CUDA_RESOURCE_DESC resource = one->resource;
  if (resource.resType == CU_RESOURCE_TYPE_LINEAR) {
    resource.res.linear.format = one->format;
    resource.res.linear.numChannels = one->channels;
  }
  const CUresult result = tsr_describe_texture_resource(one->context, &resource, descriptor);
  return result == CUDA_SUCCESS ? tsr_describe_sampling(&one->sampling, descriptor) : result;
}

/* Write a handle to the reference's variable. Kernels in progress may read it. */
static CUresult store(struct tsr_reference *one, uint64_t handle) {
  struct tsr_end to;
  const struct tsr_end from = {.address = (uintptr_t)&handle, .host = (uint8_t *)&handle};
  CUresult result = tsr_wait_all(one->context);
  if (result == CUDA_SUCCESS) result = tsr_locate_device(one->variable, sizeof handle, &to);
  if (result != CUDA_SUCCESS) return result;
  return tsr_copy_between(one->context, TSR_LEGACY_STREAM, &to, &from, sizeof handle, true);
}

static CUresult bind(struct tsr_reference *one) {
  struct tsr_descriptor descriptor;
  struct tsr_texture_facts facts = {.kind = one->kind,
                                    .context = one->context,
                                    .context_handle = one->context_handle,
                                    .resource = one->resource,
                                    .texture = one->sampling};
  CUresult result = describe(one, &descriptor);
  if (result == CUDA_SUCCESS) result = tsr_texture_add(&facts, &descriptor);
  if (result != CUDA_SUCCESS) return result;
  result = store(one, facts.address);
  const uint64_t unused = result == CUDA_SUCCESS ? one->bound : facts.address;
  if (unused) tsr_texture_destroy(unused, one->kind);
  if (result != CUDA_SUCCESS) return result;
  one->bound = facts.address;
  one->changed = false;
  return CUDA_SUCCESS;
}

/* Return the name of a reference's variable, which is in the module's table. Under the module lock. */
static const char *name_of(const struct tsr_module *module, const struct tsr_reference *one) {
  const struct tsr_table *table = &module->table;
  for (uint32_t i = 0; i < table->header->variable_count; i++)
    if (table->variables[i].address == one->variable && table->variables[i].bytes)
      return (const char *)table->data + table->variables[i].name_offset;
  return "";
}

/* Whether a table has the variable which states that a kernel may read a reference. */
static bool states(const struct tsr_table *table, const char *kernel, const char *reference) {
  static const char prefix[] = "tessera.reads.";
  const size_t length = strlen(kernel);
  for (uint32_t i = 0; table->data && i < table->header->variable_count; i++) {
    const char *name = (const char *)table->data + table->variables[i].name_offset;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) continue;
    name += sizeof prefix - 1;
    if (strncmp(name, kernel, length) == 0 && name[length] == '.' &&
        strcmp(name + length + 1, reference) == 0)
      return true;
  }
  return false;
}

/* Whether a kernel may read a reference. A kernel of a lazy module has a table of its own. */
static bool reads(uint64_t handle, const struct tsr_reference *one) {
  pthread_mutex_lock(&tsr_module_lock);
  const struct tsr_function *function = TSR_FIND(tsr_function, TSR_FUNCTION, handle);
  const struct tsr_module *module = TSR_FIND(tsr_module, TSR_MODULE, one->module);
  bool found = false;
  if (function && module && function->module == module) {
    const char *name = name_of(module, one);
    found = states(&module->table, function->name, name) ||
            states(&function->table, function->name, name);
  }
  pthread_mutex_unlock(&tsr_module_lock);
  return found;
}

/* Log once after a change why launches are refused. */
static void report(uint64_t handle, struct tsr_reference *one, CUresult why) {
  if (one->reported) return;
  one->reported = true;
  pthread_mutex_lock(&tsr_module_lock);
  const struct tsr_function *function = TSR_FIND(tsr_function, TSR_FUNCTION, handle);
  const struct tsr_module *module = TSR_FIND(tsr_module, TSR_MODULE, one->module);
  if (function && module)
    tsr_log("kernel %s not launched: %s reference %s, which it reads, cannot be bound to what it was set"
            " to (CUDA error %d); set its memory or array, format and flags to ones that exist together",
            function->title, one->kind == TSR_DESCRIPTOR_SURFACE ? "surface" : "texture",
            name_of(module, one), (int)why);
  pthread_mutex_unlock(&tsr_module_lock);
}

/* Bind the changed references that a kernel may read, before it is launched. */
static CUresult bind_changed(struct tsr_context *context, uint64_t function) {
  CUresult result = CUDA_SUCCESS;
  bool left = false;
  pthread_mutex_lock(&lock);
  for (struct tsr_reference *one = references; one; one = one->next) {
    if (one->context != context || !one->changed) continue;
    if (result == CUDA_SUCCESS && reads(function, one)) {
      result = bind(one);
      if (result != CUDA_SUCCESS) report(function, one, result);
    }
    left |= one->changed;
  }
  atomic_store(&context->references_changed, left);
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult tsr_reference_release_changed(struct tsr_reference *reference) {
  if (reference->context && reference->has_resource) {
    reference->changed = true;
    reference->reported = false;
    reference->context->bind_references = bind_changed;
    atomic_store(&reference->context->references_changed, true);
  }
  return tsr_reference_release();
}

/* Find the variable of a reference: a second variable states its type. */
static CUresult locate(uint64_t module, const char *name, enum tsr_descriptor_kind kind,
                       struct tsr_reference *made) {
  char marker[4096];
  const char *type = kind == TSR_DESCRIPTOR_SURFACE ? "surfref" : "texref";
  const int length = snprintf(marker, sizeof marker, "tessera.%s.%s", type, name);
  if (length < 0 || (size_t)length >= sizeof marker) return CUDA_ERROR_NOT_FOUND;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  pthread_mutex_lock(&tsr_module_lock);
  const struct tsr_module *found = TSR_FIND(tsr_module, TSR_MODULE, module);
  CUresult result = found ? tsr_module_variable(found, name, &address, &bytes)
                          : CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS && !tsr_table_variable(&found->table, marker))
    result = CUDA_ERROR_NOT_FOUND;
  if (result == CUDA_SUCCESS) {
    made->context = found->context;
    made->context_handle = found->context_handle;
    made->module = module;
    made->variable = address;
  }
  pthread_mutex_unlock(&tsr_module_lock);
  return result == CUDA_SUCCESS && bytes != sizeof(uint64_t) ? CUDA_ERROR_NOT_FOUND : result;
}

static struct tsr_reference *find_at(uint64_t variable) {
  struct tsr_reference *one = references;
  while (one && one->variable != variable) one = one->next;
  return one;
}

CUresult tsr_reference_of_module(uint64_t module, const char *name, enum tsr_descriptor_kind kind,
                                 uint64_t *handle) {
  struct tsr_reference *made = tsr_reference_new(kind);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = locate(module, name, kind, made);
  pthread_mutex_lock(&lock);
  sweep_locked();
  const struct tsr_reference *known = result == CUDA_SUCCESS ? find_at(made->variable) : NULL;
  if (known) *handle = known->handle;
  if (known || result != CUDA_SUCCESS) {
    tsr_object_free(TSR_REFERENCE, made);
  } else {
    made->next = references;
    references = made;
    *handle = made->handle = tsr_object_publish(TSR_REFERENCE, made);
    tsr_hook_add(TSR_ON_CLOSE, sweep);
  }
  pthread_mutex_unlock(&lock);
  return result;
}
