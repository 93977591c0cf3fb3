/* The accelerations of n bodies (x, y, z, mass), all pairs. */
#include <math.h>

typedef struct {
  float x, y, z, w;
} body_t;

void nbody(const body_t *restrict body, body_t *restrict acceleration, int n) {
#pragma omp parallel for
  for (int i = 0; i < n; i++) {
    body_t me = body[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int j = 0; j < n; j++) {
      body_t other = body[j];
      float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
      float r = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
      float s = other.w * r * r * r;
      ax += dx * s;
      ay += dy * s;
      az += dz * s;
    }
    acceleration[i] = (body_t){ax, ay, az, 0.0f};
  }
}
