// Sums of products: convolutions and matrix products.
//
//   y[m][n] = sum over taps t and channels c of x[pixel(m, t)][c] * w[n][t][c]
//
// The weights are packed as [group][block][tap][c][BLOCK], so that they are read in order.
//
// X is the type of x and zeros, W that of w, S that of y and the operands of the stages. Integers in w
// have scales: sum * scales[n].
// This file has what the programs `product` and `product_local` share:
//   POINTWISE: position m reads pixel m, by one tap.
//   BATCHED: axis 2 of the range counts products, whose operands begin at x_at[i] and w_at[i].
//   SPLIT: axis 2 of the range counts parts of the terms, whose sums are written one after the other.
//   STRIDED_OUT: position (oy, ox) is written to (oy * y_sy + y_py, ox * y_sx + y_px).
//   WHOLE: the columns of a group are a multiple of eight.

#if defined(X_HALF)
#define X_LOAD(p) vload_half(0, p)
#else
#define X_LOAD(p) (*(p))
#endif

// W_LOAD reads the weight of an index.
#if defined(W_HALF)
#define W_LOAD(p, i) vload_half(i, p)
#elif defined(W_NIBBLE)
#define W_LOAD(p, i) ((float)((int)((p)[(i) / 8] << (28 - (i) % 8 * 4)) >> 28))
#else
#define W_LOAD(p, i) ((float)(p)[i])
#endif

#if !defined(W_FLOAT) && !defined(W_HALF)
#define HAS_SCALES 1
#define SCALE_PARAMETERS , TENSOR_IN(float, scales)
#else
#define SCALE_PARAMETERS
#endif

#if BATCHED
#define BATCH_PARAMETERS , TENSOR_IN(int, x_at), TENSOR_IN(int, w_at)
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

// positions: M; pixel: elements between pixels of x; channels: of a tap; columns: of a group;
// all_columns: of y; blocks: of a group.
#define PRODUCT_PARAMETERS \
  TENSOR_IN(X, x), TENSOR_IN(W, w), TENSOR_OUT(S, y), int positions, int pixel, int channels, \
  int columns, int all_columns, int blocks SCALE_PARAMETERS WINDOW_PARAMETERS BATCH_PARAMETERS \
  OUT_PARAMETERS STAGE_PARAMETERS

// Sets `row` to the row of y of position m.
#if STRIDED_OUT
#define FIND_ROW(m) \
  const int line = (m) / y_width, image_of = line / y_height; \
  const int oy = (line - image_of * y_height) * y_sy + y_py; \
  const int ox = ((m) - line * y_width) * y_sx + y_px; \
  const int row = (image_of * all_height + oy) * all_width + ox
#elif BATCHED || SPLIT
#define FIND_ROW(m) const int row = get_group_id(2) * positions + (m)
#else
#define FIND_ROW(m) const int row = (m)
#endif

