/* printf, assert, malloc, free and conditions of graphs in device code: calls that the driver
 * provides. */
#ifndef TESSERA_SYSTEM_CALLS_H
#define TESSERA_SYSTEM_CALLS_H

extern "C" {
__device__ int vprintf(const char *, const char *);
__device__ int printf(const char *, ...);
__device__ void free(void *) __attribute__((nothrow));
__device__ void *malloc(size_t) __attribute__((nothrow, malloc));
__device__ void __assertfail(const char *message, const char *file, unsigned line,
                             const char *function, size_t character_bytes);
/* What the assert() of <assert.h> calls. */
__device__ static inline void __assert_fail(const char *message, const char *file, unsigned line,
                                            const char *function) noexcept {
  __assertfail(message, file, line, function, sizeof(char));
}
/* Sets the condition of a conditional node of the graph that runs the kernel. */
__device__ void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, void *stream = 0);
}

namespace std {
__device__ static inline void free(void *pointer) { ::free(pointer); }
__device__ static inline void *malloc(size_t bytes) { return ::malloc(bytes); }
}  // namespace std

#endif
