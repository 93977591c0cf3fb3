// What nvcc declares without an include: functions of <time.h>, <string.h> and <stdlib.h>, and clock() of
// the device beside that of the host.
#include <stdio.h>

__global__ void measure(long long *out) {
  const auto begin = clock();
  memset(out, 0, 2 * sizeof *out);
  out[0] = clock() - begin >= 0 ? threadIdx.x + 1 : -1;
  out[1] = clock64() > 0;
}

int main() {
  long long *device, host[2];
  char text[8];
  struct timespec now;
  srand(time(NULL));
  const clock_t begin = clock();
  cudaMalloc(&device, sizeof host);
  measure<<<1, 1>>>(device);
  cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
  const bool is_right = clock_gettime(CLOCK_MONOTONIC, &now) == 0 && now.tv_nsec < 1000000000 &&
                        seconds >= 0 && strlen(strcpy(text, "four")) == 4 && host[0] == 1 && host[1] == 1;
  printf("implicit includes: %s\n", is_right ? "right" : "WRONG");
  return !is_right;
}
