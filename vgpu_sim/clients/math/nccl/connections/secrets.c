#define _GNU_SOURCE
#include "connections/secrets.h"

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool tsr_fill_random(void *bytes, size_t size) {
  /* The system call, because glibc has getrandom() only since 2.25. Up to 256 bytes are never interrupted. */
  return syscall(SYS_getrandom, bytes, size, 0) == (long)size;
}

bool tsr_is_equal(const void *first, const void *second, size_t size) {
  const volatile uint8_t *const left = first, *const right = second;
  uint8_t differences = 0;
  for (size_t i = 0; i < size; i++) differences |= left[i] ^ right[i];
  return differences == 0;
}

void tsr_wipe(void *bytes, size_t size) {
  memset(bytes, 0, size);
  /* glibc has explicit_bzero() only since 2.25. The compiler must assume that this reads the memory. */
  __asm__ volatile("" : : "r"(bytes) : "memory");
}
