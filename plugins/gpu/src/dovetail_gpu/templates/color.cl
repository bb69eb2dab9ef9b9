// Colors of images with half-size chroma. `factors` has a row (luma, U, V) for each color.

__kernel void yuv_to_rgb(TENSOR_IN(S, x), TENSOR_OUT(S, y), TENSOR_IN(float, factors), int pixels,
                         int height, int width, int u_at) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  TENSOR_READ(float, factors);
  const int i = get_global_id(0);
  if (i >= pixels) return;
  const int column = i % width, row = i / width % height, size = height * width;
  __global const S *image = x + i / size * (size / 2 * 3);
  __global const S *pair = image + (size + row / 2 * width + (column & ~1));
  const float luma = LOAD(image + (row * width + column)) - 16.0f;
  const float u = LOAD(pair + u_at) - 128.0f, v = LOAD(pair + (1 - u_at)) - 128.0f;
  for (int k = 0; k < 3; k++) {
    const float found = luma * factors[3 * k] + (u * factors[3 * k + 1] + v * factors[3 * k + 2]);
    // unlike fmin and fmax, comparisons keep a NaN
    STORE(found < 0.0f ? 0.0f : found > 255.0f ? 255.0f : found, y + (3 * i + k));
  }
}
