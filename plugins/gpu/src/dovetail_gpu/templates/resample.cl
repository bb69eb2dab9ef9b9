// Resamples two axes of (outer, height, width, inner): element (i, j) of a result is a weighted sum
// of elements `row_indices[i, a]`, `column_indices[j, b]`; with `copies` it is the first of them.
// Eight inner elements at once, and the rest one by one.

#define SAMPLE(V, LOAD_V, STORE_V, c) \
  { \
    V v = (V)(0.0f); \
    for (int a = 0; a < taps_y; a++) { \
      const float weight = row_weights[i * taps_y + a]; \
      __global const S *line = image + row_indices[i * taps_y + a] * width * inner + (c); \
      for (int b = 0; b < taps_x; b++) \
        v += weight * column_weights[j * taps_x + b] * \
             LOAD_V(line + column_indices[j * taps_x + b] * inner); \
    } \
    STORE_V(v, y + (row * out_width + j) * inner + (c)); \
  }
#define COPY(V, LOAD_V, STORE_V, c) \
  STORE_V(LOAD_V(image + (row_indices[i] * width + column_indices[j]) * inner + (c)), \
          y + (row * out_width + j) * inner + (c));

__kernel void resample(TENSOR_IN(S, x), TENSOR_OUT(S, y), TENSOR_IN(int, row_indices),
                       TENSOR_IN(float, row_weights), TENSOR_IN(int, column_indices),
                       TENSOR_IN(float, column_weights), int rows, int height, int width,
                       int inner, int out_height, int out_width, int taps_y, int taps_x,
                       int copies) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  TENSOR_READ(int, row_indices);
  TENSOR_READ(float, row_weights);
  TENSOR_READ(int, column_indices);
  TENSOR_READ(float, column_weights);
  const int first = get_global_id(0) * 8, j = get_global_id(1), row = get_global_id(2);
  if (first >= inner || j >= out_width || row >= rows) return;
  const int outer = row / out_height, i = row - outer * out_height;
  __global const S *image = x + outer * height * width * inner;
  if (first + 8 <= inner) {
    if (copies) COPY(float8, LOAD8, STORE8, first)
    else SAMPLE(float8, LOAD8, STORE8, first)
    return;
  }
  for (int c = first; c < inner; c++) {
    if (copies) COPY(float, LOAD, STORE, c)
    else SAMPLE(float, LOAD, STORE, c)
  }
}
