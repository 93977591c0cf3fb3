/* What the contests of TMA copies compare with: memcpy of each piece to a buffer that stays in the cache. */
#include <stdint.h>
#include <string.h>

enum { PIECE = 16 << 10, LINE = 128 };

void copy(const char *a, uint32_t *words, int32_t pieces) {
#pragma omp parallel
  {
    static __thread char data[PIECE] __attribute__((aligned(4096)));
#pragma omp for schedule(static)
    for (int32_t i = 0; i < pieces; i++) {
      memcpy(data, a + (int64_t)i * PIECE, PIECE);
      __asm__ volatile("" ::"r"(data) : "memory"); /* all of the piece is used */
      memcpy(&words[i], data + PIECE - LINE, 4);
    }
  }
}
