/* The accelerations of n bodies (x, y, z, mass), all pairs, one work-item per body. Groups of 256. */
__kernel void nbody(__global const float4 *body, __global float4 *acceleration, int n) {
  int i = get_group_id(0) * get_local_size(0) + get_local_id(0);
  float4 me = body[i];
  float ax = 0.0f, ay = 0.0f, az = 0.0f;
  for (int j = 0; j < n; j++) {
    float4 other = body[j];
    float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
    float r = rsqrt(dx * dx + dy * dy + dz * dz + 1e-3f);
    float s = other.w * r * r * r;
    ax += dx * s;
    ay += dy * s;
    az += dz * s;
  }
  acceleration[i] = (float4)(ax, ay, az, 0.0f);
}
