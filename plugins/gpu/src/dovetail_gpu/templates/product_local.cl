// Sums of products with tiles in local memory, for devices of many small cores; see product_head.cl.
//
// A work group of SIDE times SIDE items computes SIDE * ROWS positions times SIDE * COLUMNS columns. It
// copies DEPTH channels of both operands to local memory at a time: while it computes with these, it
// reads the next ones, which hides most of the time of global memory. An item computes vectors of
// X_SPAN neighboring positions and W_SPAN neighboring columns, which it reads in one instruction.
//
// SPLIT: axis 2 of the range counts parts of the terms. The result of each is a matrix of its own in
// y, without stages; the program `product_parts` adds them.

#define SIDE 16
#define DEPTH 16
#define TALL (SIDE * ROWS)
#define BLOCK (SIDE * COLUMNS)
#define GAP 4  // between lines of x in local memory, so that neighbors are in different banks

#define SPREAD_1(a, p) (a)[0] = *(p);
#define SPREAD_2(a, p) \
  { \
    const float2 two = *(__local const float2 *)(p); \
    (a)[0] = two.x, (a)[1] = two.y; \
  }
#define SPREAD_4(a, p) \
  { \
    const float4 four = *(__local const float4 *)(p); \
    (a)[0] = four.x, (a)[1] = four.y, (a)[2] = four.z, (a)[3] = four.w; \
  }
#if ROWS % 4 == 0
#define X_SPAN 4
#define SPREAD_X SPREAD_4
#elif ROWS == 2
#define X_SPAN 2
#define SPREAD_X SPREAD_2
#else
#define X_SPAN 1
#define SPREAD_X SPREAD_1
#endif
#if COLUMNS % 4 == 0
#define W_SPAN 4
#define SPREAD_W SPREAD_4
#else
#define W_SPAN 2
#define SPREAD_W SPREAD_2
#endif
// The index in the tile of an item's element i of vectors.
#define PLACE(i, lane, span) ((i) / span * (SIDE * span) + (lane) * span + (i) % span)

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void product(PRODUCT_PARAMETERS) {
  TENSOR_READ(X, x);
  TENSOR_READ(W, w);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  __local float of_x[2][DEPTH][TALL + GAP] __attribute__((aligned(16)));
  __local float of_w[2][DEPTH][BLOCK] __attribute__((aligned(16)));
  const int across = get_local_id(0), down = get_local_id(1);
  const int top_row = get_group_id(0) * TALL;
  const int part = get_group_id(1) / blocks;
  const int left_column = (get_group_id(1) - part * blocks) * BLOCK;
  x += part * channels;
  int at_w = 0;
#if BATCHED
  TENSOR_READ(int, x_at);
  TENSOR_READ(int, w_at);
  x += x_at[get_group_id(2)];
  at_w = w_at[get_group_id(2)];
#endif

  // Items copy position `down` of each SIDE, channel `across`. Positions after the last one are
  // computed like the last one, and not written.
#if POINTWISE
  const int taps_x = 1, taps = 1;
#define FIND_PIXELS
#else
  TENSOR_READ(X, zeros);
  const int taps = taps_y * taps_x;
  int top[ROWS], left[ROWS], image[ROWS];
#define FIND_PIXELS \
  { \
    const int ky = tap / taps_x, kx = tap - ky * taps_x; \
    for (int r = 0; r < ROWS; r++) { \
      const int iy = top[r] + ky * step_y, ix = left[r] + kx * step_x; \
      const bool inside = (uint)iy < (uint)height && (uint)ix < (uint)width; \
      from[r] = inside ? x + ((long)(image[r] + iy) * width + ix) * pixel : zeros; \
    } \
  }
#endif
  __global const X *from[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const int m = min(top_row + down + r * SIDE, positions - 1);
#if POINTWISE
    from[r] = x + (long)m * pixel;
#else
    const int line = m / y_width, n = line / y_height;
    top[r] = (line - n * y_height) * stride_y - pad_y;
    left[r] = (m - line * y_width) * stride_x - pad_x;
    image[r] = n * height;
#endif
  }

  const int steps_of_tap = (channels + DEPTH - 1) / DEPTH;
#if SPLIT
  const int each = (taps * steps_of_tap + get_num_groups(2) - 1) / get_num_groups(2);
  int step = get_group_id(2) * each;
  const int end = min(step + each, taps * steps_of_tap);
#else
  int step = 0;
  const int end = taps * steps_of_tap;
#endif
  int tap = step / max(1, steps_of_tap), start = (step - tap * steps_of_tap) * DEPTH;
  at_w += (get_group_id(1) * taps + tap) * channels * BLOCK;
  FIND_PIXELS

  float next_x[ROWS], next_w[COLUMNS];
#define FETCH \
  { \
    const bool has_x = start + across < channels, has_w = start + down < channels; \
    const int at = at_w + (start + down) * BLOCK + across; \
    _Pragma("unroll") for (int r = 0; r < ROWS; r++) \
      next_x[r] = has_x ? X_LOAD(from[r] + start + across) : 0.0f; \
    _Pragma("unroll") for (int n = 0; n < COLUMNS; n++) \
      next_w[n] = has_w ? W_LOAD(w, at + n * SIDE) : 0.0f; \
  }

  float sum[ROWS][COLUMNS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int n = 0; n < COLUMNS; n++) sum[r][n] = 0.0f;

  if (step < end) FETCH
  for (int half_of = 0; step < end; half_of ^= 1) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) of_x[half_of][across][down + r * SIDE] = next_x[r];
#pragma unroll
    for (int n = 0; n < COLUMNS; n++) of_w[half_of][down][across + n * SIDE] = next_w[n];
    // the other half is written next, after all items have passed here again: one barrier is enough
    barrier(CLK_LOCAL_MEM_FENCE);
    if (++step < end) {
      start += DEPTH;
      if (start >= channels) {
        start = 0;
        tap++;
        at_w += channels * BLOCK;
        FIND_PIXELS
      }
      FETCH
    }
#pragma unroll
    for (int c = 0; c < DEPTH; c++) {
      float a[ROWS], b[COLUMNS];
#pragma unroll
      for (int r = 0; r < ROWS; r += X_SPAN)
        SPREAD_X(a + r, of_x[half_of][c] + PLACE(r, down, X_SPAN))
#pragma unroll
      for (int n = 0; n < COLUMNS; n += W_SPAN)
        SPREAD_W(b + n, of_w[half_of][c] + PLACE(n, across, W_SPAN))
#pragma unroll
      for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int n = 0; n < COLUMNS; n++) sum[r][n] += a[r] * b[n];
    }
  }

#if HAS_SCALES
  TENSOR_READ(float, scales);
  scales += get_group_id(1) * BLOCK;
#endif
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const int m = top_row + PLACE(r, down, X_SPAN);
    if (m < positions) {
      FIND_ROW(m);
#pragma unroll
      for (int n = 0; n < COLUMNS; n++) {
        const int place = PLACE(n, across, W_SPAN);
        if (left_column + place < columns) {
          const int channel = part * columns + left_column + place;
          const int at = row * all_columns + channel;
          float result = sum[r][n];
#if HAS_SCALES
          result *= scales[place];
#endif
          STAGES(float, LOAD, result, at, channel);
          STORE(result, y + at);
        }
      }
    }
  }
}
