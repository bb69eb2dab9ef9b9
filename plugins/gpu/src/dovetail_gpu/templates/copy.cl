// Copies of boxes: y[base_y + sum i_k * step_y_k] = x[base_x + sum i_k * step_x_k].
// E is an unsigned integer of the elements' width. The two innermost axes are arguments; the others
// are in `axes`: for each, the last first, size, step in x and step in y. A work item copies a block
// of at most `tall` rows and `wide` columns of the two innermost axes.

#define PASTE(a, b) a##b
#define JOIN(a, b) PASTE(a, b)
#define E2 JOIN(E, 2)
#define E4 JOIN(E, 4)
#define E8 JOIN(E, 8)
typedef E2 __attribute__((aligned(E_BYTES))) packed_e2;
typedef E4 __attribute__((aligned(E_BYTES))) packed_e4;
typedef E8 __attribute__((aligned(E_BYTES))) packed_e8;
#define GET4(p) (*(__global const packed_e4 *)(p))
#define PUT4(v, p) (*(__global packed_e4 *)(p) = (v))
#define GET8(p) (*(__global const packed_e8 *)(p))
#define PUT8(v, p) (*(__global packed_e8 *)(p) = (v))

typedef struct {
  int x, y;
} Position;

static Position position(__global const int *axes, int count, int index, int x, int y) {
  Position at = {x, y};
  for (int k = 0; k < count; k++, axes += 3) {
    const int size = axes[0];
    const int i = index % size;
    index /= size;
    at.x += i * axes[1];
    at.y += i * axes[2];
  }
  return at;
}

static void copy_run(__global const E *restrict x, __global E *restrict y, int count) {
  int i = 0;
  for (; i + 8 <= count; i += 8) PUT8(GET8(x + i), y + i);
  if (i + 4 <= count) {
    PUT4(GET4(x + i), y + i);
    i += 4;
  }
  for (; i < count; i++) y[i] = x[i];
}

#define BOX_PARAMETERS                                                                            \
  TENSOR_IN(E, x), TENSOR_OUT(E, y), TENSOR_IN(int, axes), int count, int outer, int base_x,      \
      int base_y, int height, int width, int step_x, int step_y, int column_x, int column_y,      \
      int tall, int wide

// Begins a kernel with BOX_PARAMETERS: the block of a work item is rows top..bottom and columns
// left..right at x and y.
#define BOX_BLOCK                                                                                 \
  TENSOR_READ(E, x);                                                                              \
  TENSOR_WRITE(E, y);                                                                             \
  TENSOR_READ(int, axes);                                                                         \
  const int across = (width + wide - 1) / wide, down = (height + tall - 1) / tall;                \
  int item = get_global_id(0);                                                                    \
  const int left = item % across * wide, right = min(left + wide, width);                         \
  item /= across;                                                                                 \
  const int top = item % down * tall, bottom = min(top + tall, height);                           \
  item /= down;                                                                                   \
  if (item >= outer) return;                                                                      \
  const Position at = position(axes, count, item, base_x, base_y);                                \
  x += at.x;                                                                                      \
  y += at.y

// Both have contiguous columns.
__kernel void copy_runs(BOX_PARAMETERS) {
  BOX_BLOCK;
  for (int i = top; i < bottom; i++) {
    const int row_x = i * step_x, row_y = i * step_y;
    copy_run(x + row_x + left, y + row_y + left, right - left);
  }
}

// Only y has contiguous columns.
__kernel void copy_into_runs(BOX_PARAMETERS) {
  BOX_BLOCK;
  for (int i = top; i < bottom; i++) {
    __global const E *from = x + (i * step_x + left * column_x);
    __global E *to = y + i * step_y + left;
    const int n = right - left;
    if (column_x == 0) {
      const E value = from[0];
      for (int j = 0; j < n; j++) to[j] = value;
    } else {
      for (int j = 0; j < n; j++) to[j] = from[j * column_x];
    }
  }
}

// Any steps.
__kernel void copy_elements(BOX_PARAMETERS) {
  BOX_BLOCK;
  for (int i = top; i < bottom; i++)
    for (int j = left; j < right; j++)
      y[i * step_y + j * column_y] = x[i * step_x + j * column_x];
}
