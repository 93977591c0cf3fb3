#define _GNU_SOURCE
#include "connections/siphash.h"

#include <endian.h>
#include <string.h>

struct state {
  uint64_t a, b, c, d;
};

static inline uint64_t rotate(uint64_t word, unsigned count) { return word << count | word >> (64 - count); }

static inline uint64_t load(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return le64toh(word);
}

static inline void store(uint8_t *bytes, uint64_t word) {
  word = htole64(word);
  memcpy(bytes, &word, sizeof word);
}

static inline void mix(struct state *state, unsigned rounds) {
  for (unsigned i = 0; i < rounds; i++) {
    state->a += state->b;
    state->b = rotate(state->b, 13) ^ state->a;
    state->a = rotate(state->a, 32);
    state->c += state->d;
    state->d = rotate(state->d, 16) ^ state->c;
    state->a += state->d;
    state->d = rotate(state->d, 21) ^ state->a;
    state->c += state->b;
    state->b = rotate(state->b, 17) ^ state->c;
    state->c = rotate(state->c, 32);
  }
}

static inline void add(struct state *state, uint64_t word) {
  state->d ^= word;
  mix(state, 2);
  state->a ^= word;
}

void tsr_siphash(uint8_t value[TSR_SIPHASH_BYTES], const uint8_t key[TSR_SIPHASH_BYTES], uint64_t number,
                 const void *bytes, size_t size) {
  const uint64_t first = load(key), second = load(key + 8);
  struct state state = {
      .a = UINT64_C(0x736f6d6570736575) ^ first,
      .b = UINT64_C(0x646f72616e646f6d) ^ second ^ 0xee,
      .c = UINT64_C(0x6c7967656e657261) ^ first,
      .d = UINT64_C(0x7465646279746573) ^ second,
  };
  const uint8_t *at = bytes, *const end = at + size / 8 * 8;
  uint8_t last[8] = {0};
  add(&state, number);
  for (; at < end; at += 8) add(&state, load(at));
  memcpy(last, at, size % 8);
  last[7] = (uint8_t)(size + 8);
  add(&state, load(last));
  state.c ^= 0xee;
  mix(&state, 4);
  store(value, state.a ^ state.b ^ state.c ^ state.d);
  state.b ^= 0xdd;
  mix(&state, 4);
  store(value + 8, state.a ^ state.b ^ state.c ^ state.d);
}
