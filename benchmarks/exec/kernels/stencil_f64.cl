/* Seven-point stencil in f64 on an n x n x n grid; faces are unchanged. Groups of 32 x 8. */
__kernel void stencil_f64(__global const double *in, __global double *out, int n) {
  int x = get_group_id(0) * get_local_size(0) + get_local_id(0);
  int y = get_group_id(1) * get_local_size(1) + get_local_id(1);
  int z = get_group_id(2);
  if (x == 0 || y == 0 || z == 0 || x >= n - 1 || y >= n - 1 || z >= n - 1) return;
  int i = (z * n + y) * n + x, m = n * n;
  out[i] = 0.4 * in[i] + 0.1 * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - m] + in[i + m]);
}
