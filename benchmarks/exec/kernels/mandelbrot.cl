/* Iterations until |z| > 2, at most 256, one work-item per pixel. Groups of 32 x 8. */
__kernel void mandelbrot(__global int *out, int width, int height) {
  int x = get_group_id(0) * get_local_size(0) + get_local_id(0);
  int y = get_group_id(1) * get_local_size(1) + get_local_id(1);
  if (x >= width || y >= height) return;
  float cr = -2.0f + 3.0f * x / width, ci = -1.0f + 2.0f * y / height;
  float a = 0.0f, b = 0.0f;
  int i = 0;
  while (i < 256 && a * a + b * b <= 4.0f) {
    float next = a * a - b * b + cr;
    b = 2.0f * a * b + ci;
    a = next;
    i++;
  }
  out[y * width + x] = i;
}
