/* Random words for the functions that kernels' code calls through its thread state.
 *
 * Without arguments the names of the functions are printed. `words NAME SEED COUNT` calls one with
 * COUNT groups of words, most of which are nearly legal, and prints how many products, or blocks
 * whose lanes call the other functions, ended well.
 * The sanitizers detect what a word should not have led to. The program is linked with
 * --wrap for tw_die_of_trap, so that an error of a kernel ends only its block, and for mmap, so
 * that the address sanitizer knows the bounds of the memory of products. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/internal.h"
#include "blocks/cta.h"

enum { WORDS = 16, GROUPS = 64, STEPS = 8, STACK_BYTES = 65536 };

static uint64_t dice;
static bool in_product; /* memory is mapped for a product */
static jmp_buf trapped;

static uint32_t draw(void) { /* xorshift64* */
  dice ^= dice >> 12;
  dice ^= dice << 25;
  dice ^= dice >> 27;
  return (uint32_t)(dice * UINT64_C(2685821657736338717) >> 32);
}

void *__real_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset) {
  if (in_product) return calloc(1, bytes);
  return __real_mmap(at, bytes, access, flags, file, offset);
}

void __wrap_tw_die_of_trap(uint64_t kernel, uint64_t code, const tessera_thread_state *state,
                           const char *message);
void __wrap_tw_die_of_trap(uint64_t kernel, uint64_t code, const tessera_thread_state *state,
                           const char *message) {
  (void)kernel, (void)code, (void)state, (void)message;
  longjmp(trapped, 1);
}

/* Change up to two fields of the words of a product that is legal. */
static void draw_product(uint32_t *words) {
  const uint32_t kind = draw() % 7, pair = draw() % 4 == 0;
  const uint32_t descriptor_low = 8u << 16, descriptor_high = 1u << 14 | 8;
  for (uint32_t i = 0; i < WORDS; i++) words[i] = draw() % 2 ? 0 : draw();
  words[0] = 0;
  words[1] = words[3] = descriptor_low;
  words[2] = words[4] = descriptor_high;
  words[5] = 1u << 4 | (2u << draw() % 5) << 17 | (kind < 4 ? (8u << pair) << 24 : (1u << pair) << 27);
  words[6] = kind | (kind == 4) << 5 | pair << 7 | (draw() & (8 | 16 | 512 | 1024));
  words[7] = TESSERA_TENSOR_FIRST_BYTE;
  for (uint32_t change = draw() % 3; change != 0; change--) {
    const uint32_t at = draw() % WORDS;
    words[at] = draw() % 4 ? words[at] ^ 1u << draw() % 32 : draw();
  }
  if (draw() % 4 == 0) words[6] ^= (draw() & 3) << 5;
  if (draw() % 16 == 0)
    for (uint32_t i = 0; i < WORDS; i++) words[i] = draw();
}

static uint64_t run_products(uint64_t count) {
  uint8_t *blocks[2];
  uint64_t bases[4], performed = 0;
  for (int i = 0; i < 2; i++) {
    blocks[i] = malloc(TESSERA_TENSOR_END_BYTE);
    if (blocks[i] == NULL) abort();
    for (size_t at = 0; at < TESSERA_TENSOR_END_BYTE; at++) blocks[i][at] = (uint8_t)draw();
  }
  for (int i = 0; i < 4; i++) bases[i] = (uint64_t)(uintptr_t)blocks[i % 2];
  tw_current.shared_bytes = TESSERA_TENSOR_END_BYTE;
  tw_current.bases = bases;
  tw_current.blocks = 4;
  in_product = true;
  for (uint64_t n = 0; n * WORDS < count; n++) {
    uint32_t words[WORDS];
    draw_product(words);
    tw_current.rank = (uint32_t)(n % 4);
    performed += tw_tensor_multiply(bases[n % 2], words) == 0;
  }
  in_product = false;
  for (int i = 0; i < 2; i++) free(blocks[i]);
  return performed;
}

/* The words of the step that the lanes of a block execute; a lane may change its own. */
typedef struct step {
  uint32_t how, members, count, barrier;
  uint64_t a, way;
} step;

static step steps[STEPS];
static const char *function;
static uint64_t calls, limit, ended;

static void draw_legal_step(step *s) {
  *s = (step){.how = 0x61, .members = UINT32_MAX, .barrier = draw() % 16, .a = draw(), .way = draw()};
  if (strcmp(function, "meet") == 0) s->how = 1 | (draw() % 4) << 1;
  if (strcmp(function, "collect") == 0)
    s->how = (draw() % 4 == 0) ? draw() % 4 : 0x10 + draw() % 0x50;
}

static void draw_step(step *s) {
  static const uint32_t MEMBERS[] = {UINT32_MAX, 0xffff, 0xff00ff00, 0};
  s->how = draw() % 4 ? (draw() & 0xff) | 1u : draw();
  s->members = draw() % 4 ? UINT32_MAX : MEMBERS[draw() % 4] ^ (draw() & draw());
  s->count = draw() % 4 ? 32 * (draw() % 3) : draw();
  s->barrier = draw() % 16 ? draw() % 18 : draw();
  s->a = (uint64_t)draw() << 32 | draw();
  s->way = (uint64_t)draw() << 32 | draw();
}

static void call(tessera_thread_state *state, const step *s) {
  calls++;
  if (strcmp(function, "meet") == 0)
    ((uint32_t (*)(tessera_thread_state *, uint32_t, uint32_t, uint32_t, uint32_t))(uintptr_t)
         state->meet)(state, s->barrier, s->count, s->how, (uint32_t)s->a);
  else if (strcmp(function, "collect") == 0)
    ((uint64_t (*)(tessera_thread_state *, uint32_t, uint32_t, uint64_t, uint64_t))(uintptr_t)
         state->collect)(state, s->how, s->members, s->a, s->way);
  else if (strcmp(function, "cluster") == 0)
    ((void (*)(tessera_thread_state *, uint32_t))(uintptr_t)state->cluster)(state, s->how);
  else if (strcmp(function, "cancel") == 0)
    ((uint64_t (*)(tessera_thread_state *))(uintptr_t)state->cancel)(state);
  else
    ((void (*)(tessera_thread_state *, uint64_t))(uintptr_t)state->stop)(state, s->a % 64);
}

static void run_lane(const tessera_launch_context *launch, const uint8_t *parameters,
                     uint64_t group, tessera_thread_state *state) {
  (void)launch, (void)parameters, (void)group;
  for (uint32_t i = 0; i < STEPS; i++) {
    step own = steps[i];
    if (draw() % 1024 == 0) draw_step(&own);
    if (strcmp(function, "cluster") == 0 && draw() % 1024 != 0) own.how = i % 2;
    call(state, &own);
  }
}

static uint64_t run_blocks(uint64_t count) {
  static tw_launch launch;
  static tw_cta block;
  static tw_fiber home;
  launch = (tw_launch){.context = {.grid = {1, 1, 1}, .block = {GROUPS, 1, 1}, .cluster = {1, 1, 1}},
                       .code = {.entry = (uint64_t)(uintptr_t)run_lane, .groups = GROUPS,
                                .stack_bytes = STACK_BYTES, .counts = 1, .polls = 1}};
  limit = count;
  tw_fiber_adopt_thread(&home);
  while (calls < limit) {
    for (uint32_t i = 0; i < STEPS; i++)
      if (draw() % 32 == 0)
        draw_step(&steps[i]);
      else
        draw_legal_step(&steps[i]);
    if (setjmp(trapped) != 0) { /* its fibers are parked for ever */
      tw_stacks_close(&block.stacks);
      memset(&block, 0, sizeof block);
      tw_current.stacks = NULL;
      continue;
    }
    tw_cta_prepare(&block, &launch, &launch.code, NULL, 0, &home, NULL);
    tw_cta_begin(&block, 0, 1);
    while (!tw_cta_continue(&block)) {
    }
    ended++;
  }
  return ended;
}

typedef struct target {
  const char *name; /* of the field of tessera_thread_state */
  uint64_t (*run)(uint64_t count);
} target;

static const target TARGETS[] = {{"stop", run_blocks},    {"meet", run_blocks},
                                 {"collect", run_blocks}, {"cluster", run_blocks},
                                 {"cancel", run_blocks},  {"multiply", run_products}};

int main(int count, char **arguments) {
  for (size_t i = 0; i < sizeof TARGETS / sizeof TARGETS[0]; i++) {
    if (count < 4) {
      printf("%s\n", TARGETS[i].name);
      continue;
    }
    if (strcmp(TARGETS[i].name, arguments[1]) != 0) continue;
    function = TARGETS[i].name;
    dice = strtoull(arguments[2], NULL, 0) * 2 + 1;
    const uint64_t words = strtoull(arguments[3], NULL, 0), good = TARGETS[i].run(words);
    printf("ok %llu of %llu\n", (unsigned long long)good, (unsigned long long)words);
    return 0;
  }
  return count < 4 ? 0 : 2;
}
