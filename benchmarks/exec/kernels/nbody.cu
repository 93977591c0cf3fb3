/* The accelerations of n bodies (x, y, z, mass), all pairs, one thread per body. Blocks of 256. */
#include "cuda.h"

extern "C" __global__ void nbody(const float4 *body, float4 *acceleration, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 me = body[i];
  float ax = 0.0f, ay = 0.0f, az = 0.0f;
  for (int j = 0; j < n; j++) {
    float4 other = body[j];
    float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
    float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
    float s = other.w * r * r * r;
    ax += dx * s;
    ay += dy * s;
    az += dz * s;
  }
  acceleration[i] = float4{ax, ay, az, 0.0f};
}
