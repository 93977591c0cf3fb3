/* Iterations until |z| > 2, at most 256. */
void mandelbrot(int *restrict out, int width, int height) {
#pragma omp parallel for schedule(dynamic, 8)
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
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
}
