#include "contexts/fault_place.h"

#include <stdio.h>

#include "base/aperture.h"
#include "memory/memory.h"
#include "modules/module.h"
#include "memory/slab.h"
#include "base/try_lock.h"

enum { NULL_PAGE_BYTES = 1 << 16 };
static const uint64_t FAR_BYTES = UINT64_C(1) << 40;

/* The nearest allocation or variable found so far. */
struct nearest {
  uint64_t address; /* the address to find */
  uint64_t distance, begin, bytes;
  const char *variable; /* the variable's name; NULL: an allocation */
  bool before, any;
};

static void consider(struct nearest *found, uint64_t begin, uint64_t bytes, const char *variable) {
  const bool before = found->address < begin;
  const uint64_t end = begin + bytes;
  uint64_t distance = 0;
  if (before)
    distance = begin - found->address;
  else if (found->address >= end)
    distance = found->address - end + 1;
  if (bytes == 0 || (found->any && distance >= found->distance)) return;
  *found = (struct nearest){.address = found->address,
                            .distance = distance,
                            .begin = begin,
                            .bytes = bytes,
                            .variable = variable,
                            .before = before,
                            .any = true};
}

struct in_slab {
  struct nearest *found;
  uint64_t base;
};

static void consider_block(uint64_t start, uint64_t bytes, void *state) {
  const struct in_slab *slab = state;
  consider(slab->found, slab->base + start, bytes, NULL);
}

static bool consider_chunk(struct tsr_chunk *chunk, void *state) {
  struct nearest *found = state;
  const uint64_t base = tsr_aperture_base + chunk->offset;
  if (chunk->slab)
    tsr_slab_each(chunk->slab, consider_block, &(struct in_slab){.found = found, .base = base});
  else
    consider(found, base, chunk->requested_bytes, NULL);
  return false;
}

static void consider_variables(const struct tsr_context *context, struct nearest *found) {
  for (const struct tsr_module *module = context->modules; module; module = module->next)
    for (uint32_t i = 0; i < module->table.header->variable_count; i++) {
      const tessera_variable_record *variable = &module->table.variables[i];
      consider(found, variable->address, variable->bytes,
               (const char *)module->table.data + variable->name_offset);
    }
}

/* Under the module lock, because the names belong to the modules. */
static void describe(const struct nearest *found, char *text, size_t room) {
  char what[200], where[64] = "in";
  snprintf(what, sizeof what, "the allocation of %llu bytes at 0x%llx",
           (unsigned long long)found->bytes, (unsigned long long)found->begin);
  if (found->variable)
    snprintf(what, sizeof what, "the variable %.100s of %llu bytes at 0x%llx", found->variable,
             (unsigned long long)found->bytes, (unsigned long long)found->begin);
  const char *plural = found->distance == 1 ? "" : "s";
  if (found->distance != 0)
    snprintf(where, sizeof where, "%llu byte%s %s", (unsigned long long)found->distance, plural,
             found->before ? "before" : "past the end of");
  snprintf(text, room, "%s %s", where, what);
}

void tsr_fault_place(struct tsr_context *context, uint64_t address, char *text, size_t room) {
  text[0] = 0;
  if (address < NULL_PAGE_BYTES) {
    snprintf(text, room, address ? "a null pointer and %llu bytes" : "a null pointer",
             (unsigned long long)address);
    return;
  }
  /* Try-lock, because the thread that detects a fault may hold these locks. */
  if (!tsr_try_lock(&tsr_module_lock)) return;
  if (tsr_try_lock(&tsr_memory_lock)) {
    struct nearest found = {.address = address};
    uint64_t begin, bytes;
    for (uint32_t kind = 0; kind < 2; kind++)
      tsr_chunks_each(context, kind, consider_chunk, &found);
    consider_variables(context, &found);
    if (!(found.any && found.distance == 0) &&
        tsr_memory_find_freed_locked(context, address, &begin, &bytes))
      snprintf(text, room, "in the allocation of %llu bytes at 0x%llx, which has been freed",
               (unsigned long long)bytes, (unsigned long long)begin);
    else if (found.any && found.distance < FAR_BYTES)
      describe(&found, text, room);
    else
      snprintf(text, room, found.any ? "far from every allocation" : "nothing is allocated");
    pthread_mutex_unlock(&tsr_memory_lock);
  }
  pthread_mutex_unlock(&tsr_module_lock);
}
