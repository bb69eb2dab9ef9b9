// Sums of products: convolutions and matrix products.
//
//   y[m][n] = sum over taps t and channels c of x[pixel(m, t)][c] * w[n][t][c]
//
// A work item computes ROWS positions m times VECTORS vectors of eight columns n, in registers. The
// weights are packed as [group][block][tap][c][8 * VECTORS], so that they are read in order. A tap
// outside the image reads a row of zeros: the loop over channels has no branch.
//
// X is the type of x and zeros, W that of w, S that of y and the operands of the stages. Integers in w
// have scales: sum * scales[n].
//   POINTWISE: position m reads pixel m, by one tap.
//   BATCHED: axis 2 of the range counts products, whose operands begin at x_at[i] and w_at[i].
//   STRIDED_OUT: position (oy, ox) is written to (oy * y_sy + y_py, ox * y_sx + y_px).
//   WHOLE: the columns of a group are a multiple of eight.

#if defined(X_HALF)
#define X_LOAD(p) vload_half(0, p)
#else
#define X_LOAD(p) (*(p))
#endif

// W_LOAD8 reads eight weights, which are W_UNITS elements of W.
#define W_UNITS 8
#if defined(W_HALF)
#define W_LOAD8(p) vload_half8(0, p)
#elif defined(W_FLOAT)
#define W_LOAD8(p) (*(__global const float8 *)(p))
#elif defined(W_CHAR)
#define W_LOAD8(p) convert_float8(*(__global const char8 *)(p))
#elif defined(W_SHORT)
#define W_LOAD8(p) convert_float8(*(__global const short8 *)(p))
#elif defined(W_NIBBLE)
#undef W_UNITS
#define W_UNITS 1
// the shift to the left drops the other weights, the one to the right keeps the sign
#define W_LOAD8(p) convert_float8(((int8)(*(p)) << (int8)(28, 24, 20, 16, 12, 8, 4, 0)) >> 28)
#endif
#if !defined(W_FLOAT) && !defined(W_HALF)
#define HAS_SCALES 1
#define SCALE_PARAMETERS , TENSOR_IN(float, scales)
#else
#define SCALE_PARAMETERS
#endif

#if BATCHED
#define BATCH_PARAMETERS , TENSOR_IN(int, x_at), TENSOR_IN(int, w_at), int rows_of_batch
#else
#define BATCH_PARAMETERS
#endif

#if POINTWISE
#define WINDOW_PARAMETERS
#else
#define WINDOW_PARAMETERS \
  , TENSOR_IN(X, zeros), int height, int width, int y_height, int y_width, int taps_y, int taps_x, \
  int stride_y, int stride_x, int step_y, int step_x, int pad_y, int pad_x
#endif

#if STRIDED_OUT
#define OUT_PARAMETERS , int all_height, int all_width, int y_sy, int y_sx, int y_py, int y_px
#else
#define OUT_PARAMETERS
#endif

#define BLOCK (8 * VECTORS)
#define W_BLOCK (W_UNITS * VECTORS)

// Adds the products of one tap: `from` are the channels of each position.
static inline void add_tap(float8 sum[ROWS][VECTORS], __global const X *const *from,
                           __global const W *w, int channels) {
  for (int c = 0; c < channels; c++, w += W_BLOCK) {
    float8 b[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) b[v] = W_LOAD8(w + v * W_UNITS);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const float8 a = (float8)(X_LOAD(from[r] + c));
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sum[r][v] += a * b[v];
    }
  }
}

// positions: M; pixel: elements between pixels of x; channels: of a tap; columns: of a group;
// all_columns: of y; blocks: of a group.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void product(
    TENSOR_IN(X, x), TENSOR_IN(W, w), TENSOR_OUT(S, y), int positions, int pixel, int channels,
    int columns, int all_columns, int blocks SCALE_PARAMETERS WINDOW_PARAMETERS BATCH_PARAMETERS OUT_PARAMETERS
        STAGE_PARAMETERS) {
  TENSOR_READ(X, x);
  TENSOR_READ(W, w);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  const int first = get_group_id(0) * ROWS;
  const int part = get_group_id(1) / blocks;
  const int column = (get_group_id(1) - part * blocks) * BLOCK;
  x += part * channels;
#if BATCHED
  TENSOR_READ(int, x_at);
  TENSOR_READ(int, w_at);
  x += x_at[get_group_id(2)];
  w += w_at[get_group_id(2)];
  const int row_before = get_group_id(2) * rows_of_batch;
#else
  const int row_before = 0;
#endif

  float8 sum[ROWS][VECTORS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[r][v] = (float8)(0.0f);

  __global const X *from[ROWS];
#if POINTWISE
  w += (long)get_group_id(1) * channels * W_BLOCK;
#pragma unroll
  for (int r = 0; r < ROWS; r++) from[r] = x + (long)min(first + r, positions - 1) * pixel;
  add_tap(sum, from, w, channels);
#else
  TENSOR_READ(X, zeros);
  w += (long)get_group_id(1) * taps_y * taps_x * channels * W_BLOCK;
  int top[ROWS], left[ROWS], image[ROWS];
  {
    int ox = first % y_width, oy = first / y_width, n = oy / y_height;
    oy -= n * y_height;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      top[r] = oy * stride_y - pad_y;
      left[r] = ox * stride_x - pad_x;
      image[r] = n * height;
      if (first + r + 1 < positions && ++ox == y_width) {
        ox = 0;
        if (++oy == y_height) {
          oy = 0;
          n++;
        }
      }
    }
  }
  for (int ky = 0; ky < taps_y; ky++) {
    for (int kx = 0; kx < taps_x; kx++) {
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const int iy = top[r] + ky * step_y, ix = left[r] + kx * step_x;
        const bool inside = (uint)iy < (uint)height && (uint)ix < (uint)width;
        from[r] = inside ? x + ((long)(image[r] + iy) * width + ix) * pixel : zeros;
      }
      add_tap(sum, from, w, channels);
      w += channels * W_BLOCK;
    }
  }
#endif

#if HAS_SCALES
  TENSOR_READ(float, scales);
  scales += get_group_id(1) * BLOCK;
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const float8 scale = *(__global const packed_float8 *)(scales + v * 8);
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r][v] *= scale;
  }
#endif
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    if (first + r >= positions) break;
#if STRIDED_OUT
    const int m = first + r, line = m / y_width, n = line / y_height;
    const int oy = (line - n * y_height) * y_sy + y_py, ox = (m - line * y_width) * y_sx + y_px;
    const int row = (n * all_height + oy) * all_width + ox;
#else
    const int row = row_before + first + r;
#endif
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
      const int left_over = columns - column - v * 8;
      if (left_over <= 0) break;
      const int channel = part * columns + column + v * 8;
      const int at = row * all_columns + channel;
#if !WHOLE
      if (left_over < 8) {
        float part_of[8];
        *(float8 *)part_of = sum[r][v];
        for (int j = 0; j < left_over; j++) {
          float one = part_of[j];
          STAGES(float, LOAD, one, at + j, channel + j);
          STORE(one, y + at + j);
        }
        break;
      }
#endif
      float8 result = sum[r][v];
      STAGES(float8, LOAD8, result, at, channel);
      STORE8(result, y + at);
    }
  }
}
