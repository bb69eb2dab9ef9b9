// Windows that slide over the height and width of (n, h, w, c): eight channels at once, and the rest
// one by one. A window starts at START, takes each element by STEP(V, m, v) and ends by
// FINISH(V, LOAD_V, m): `inside` elements of it are in x, `padded` in x or its padding, and `at` is
// the index of the result.

#define WINDOW(V, LOAD_V, STORE_V, c) \
  { \
    V m = (V)(START); \
    __global const S *line = corner + (c); \
    for (int a = 0; a < count_y; a++, line += width * channels) { \
      __global const S *element = line; \
      for (int b = 0; b < count_x; b++, element += channels) { \
        const V e = LOAD_V(element); \
        STEP(V, m, e); \
      } \
    } \
    const int at = (row * out_width + column) * channels + (c), channel = (c); \
    V v; \
    FINISH(V, LOAD_V, m); \
    STAGES(V, LOAD_V, v, at, channel); \
    STORE_V(v, y + at); \
  }

__kernel void pool(TENSOR_IN(S, x), TENSOR_OUT(S, y), int rows, int height, int width, int channels,
                   int out_height, int out_width, int size_y, int size_x, int stride_y,
                   int stride_x, int top, int left, int bottom, int right, float alpha, float beta,
                   float bias STAGE_PARAMETERS) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  const int first = get_global_id(0) * 8, column = get_global_id(1), row = get_global_id(2);
  if (first >= channels || column >= out_width || row >= rows) return;
  const int image = row / out_height;
  const int from_y = (row - image * out_height) * stride_y - top;
  const int from_x = column * stride_x - left;
  const int until_y = min(from_y + size_y, height), until_x = min(from_x + size_x, width);
  const int count_y = max(until_y - max(from_y, 0), 0);
  const int count_x = max(until_x - max(from_x, 0), 0), inside = count_y * count_x;
  const int padded = max(min(from_y + size_y, height + bottom) - from_y, 0) *
                     max(min(from_x + size_x, width + right) - from_x, 0);
  __global const S *corner =
      x + ((image * height + max(from_y, 0)) * width + max(from_x, 0)) * channels;
  if (first + 8 <= channels) {
    WINDOW(float8, LOAD8, STORE8, first)
    return;
  }
  for (int c = first; c < channels; c++) WINDOW(float, LOAD, STORE, c)
}
