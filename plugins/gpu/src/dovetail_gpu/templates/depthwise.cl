// Depthwise convolutions: each channel has filters of its own.
//
//   y[n][oy][ox][k] = sum over taps (ky, kx) of x[n][iy][ix][k / multiplier] * w[ky][kx][k]
//
// A work item computes PIXELS neighbors of a line of the result, for a range of channels. Elements
// of the input that several windows share are read once. Pixels outside the image are read from a
// row of zeros; lines outside it are left out.
//
// X is the type of x, w and zeros; S that of y and the operands of the stages. NARROW: one channel
// at a time; otherwise eight, the last of which may be computed twice (there are eight or more).
// TAPS_X, STRIDE_X, STEP_X: of the window along a line. Work items that are neighbors along axis 0
// compute neighboring channels; a group has GROUP_X times GROUP_Y.

#if defined(X_HALF)
#define X_LOAD(p) vload_half(0, p)
#define X_LOAD8(p) vload_half8(0, p)
#else
#define X_LOAD(p) (*(p))
#define X_LOAD8(p) (*(__global const packed_float8 *)(p))
#endif

#if NARROW
#define V float
#define READ_X X_LOAD
#define READ LOAD
#define WRITE STORE
#define WIDTH 1
#else
#define V float8
#define READ_X X_LOAD8
#define READ LOAD8
#define WRITE STORE8
#define WIDTH 8
#endif

#define SPAN ((PIXELS - 1) * STRIDE_X + (TAPS_X - 1) * STEP_X + 1)

// channels, lines: of y; tiles: of PIXELS in a line of y; chunk: channels of a work item.
__kernel __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1))) void depthwise(
    TENSOR_IN(X, x), TENSOR_IN(X, w), TENSOR_IN(X, zeros), TENSOR_OUT(S, y), int channels,
    int multiplier, int lines, int tiles, int chunk, int height, int width, int y_height,
    int y_width, int taps_y, int stride_y, int step_y, int pad_y, int pad_x STAGE_PARAMETERS) {
  TENSOR_READ(X, x);
  TENSOR_READ(X, w);
  TENSOR_READ(X, zeros);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  const int tile = get_global_id(1), line = tile / tiles, first = (tile - line * tiles) * PIXELS;
  if (line >= lines) return;
  const int n = line / y_height, top = (line - n * y_height) * stride_y - pad_y;
  const int left = first * STRIDE_X - pad_x, x_channels = channels / multiplier;
  int from_y = 0, to_y = taps_y;
  while (from_y < to_y && top + from_y * step_y < 0) from_y++;
  while (to_y > from_y && top + (to_y - 1) * step_y >= height) to_y--;

  // the pixels of the first line, and the distance to the next line: 0 in the row of zeros
  __global const X *pixel[SPAN];
  long pitch[SPAN];
  const long x_line = (long)(n * height + top + from_y * step_y) * width;
#pragma unroll
  for (int i = 0; i < SPAN; i++) {
    const bool inside = (uint)(left + i) < (uint)width && to_y > from_y;
    pixel[i] = inside ? x + (x_line + left + i) * x_channels : zeros;
    pitch[i] = inside ? (long)step_y * width * x_channels : 0;
  }
  w += from_y * TAPS_X * channels;
  const int begin = get_global_id(0) * chunk, end = min(begin + chunk, channels);
  for (int at = begin; at < end; at += WIDTH) {
#if NARROW
    const int c = at, x_c = at / multiplier;
#else
    const int c = min(at, channels - WIDTH), x_c = c;
#endif
    V sum[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; p++) sum[p] = (V)(0.0f);
    __global const X *filter = w + c;
    for (int ky = 0; ky < to_y - from_y; ky++, filter += TAPS_X * channels) {
      V row[SPAN];
#pragma unroll
      for (int i = 0; i < SPAN; i++) row[i] = READ_X(pixel[i] + ky * pitch[i] + x_c);
#pragma unroll
      for (int kx = 0; kx < TAPS_X; kx++) {
        const V b = READ_X(filter + kx * channels);
#pragma unroll
        for (int p = 0; p < PIXELS; p++) sum[p] += row[p * STRIDE_X + kx * STEP_X] * b;
      }
    }
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
      if (first + p >= y_width) break;
      const int to = (line * y_width + first + p) * channels + c;
      V result = sum[p];
      STAGES(V, READ, result, to, c);
      WRITE(result, y + to);
    }
  }
}
